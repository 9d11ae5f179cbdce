"""How much a model is used, and how people rate its answers."""
