"""Erasure of a user in the store: its jobs, the texts and events that it removes, and the record of learning again."""
