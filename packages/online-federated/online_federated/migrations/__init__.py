"""Revisions of the tables of the group cohorts."""
