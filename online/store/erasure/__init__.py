"""Erasure of a user: its jobs, the words, the log, and what was learned again."""
