"""Deletion of what is not to be kept."""
