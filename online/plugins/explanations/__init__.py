"""Explanations of replies: what a score consists of, and the rated questions nearby."""
