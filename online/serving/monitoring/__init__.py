"""Watches one model: feedback that arrives, learning that stands still, and a live version that turns bad."""
