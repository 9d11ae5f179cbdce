"""Erasure of a user: a durable job, its steps, the files it searches, and its signed statement."""
