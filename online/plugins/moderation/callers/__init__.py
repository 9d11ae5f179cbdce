"""Callers that are not trusted: what others think of them, and what is decided about them."""
