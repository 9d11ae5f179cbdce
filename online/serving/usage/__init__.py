"""How much a model is used: over calendar time, and the questions that are asked most."""
