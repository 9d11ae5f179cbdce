"""Schemas of callers, sessions, and feedback that waits for a curator."""
