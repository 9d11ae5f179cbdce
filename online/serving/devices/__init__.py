"""Answering on accelerators: which process answers on which, and what happens when one is full."""
