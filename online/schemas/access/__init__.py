"""Schemas of callers and sessions."""
