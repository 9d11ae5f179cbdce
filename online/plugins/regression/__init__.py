"""Regression: numbers with intervals, by exact statistics that can follow a moving world."""
