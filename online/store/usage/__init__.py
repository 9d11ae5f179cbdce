"""The usage of models, and the ratings of their answers."""
