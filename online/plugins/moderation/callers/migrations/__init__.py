"""Revisions of the tables of the group callers."""
