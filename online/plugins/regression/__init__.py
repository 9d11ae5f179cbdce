"""Regression: numbers with intervals, by exact statistics, and what follows a moving world."""
