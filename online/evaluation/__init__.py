"""Judges on what was recorded; writes nothing but reports."""
