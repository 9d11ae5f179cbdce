"""Revisions of the tables of the group inbox."""
