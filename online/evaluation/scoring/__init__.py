"""How answers are scored against their outcomes, and how two models are compared."""
