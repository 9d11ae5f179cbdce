"""Tunes text encoders on a model's feedback, and puts a tuned encoder into use."""
