"""Revisions of the tables of the core."""
