"""Estimates from a log what other policies would have earned."""
