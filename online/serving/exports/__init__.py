"""Versions as files that answer elsewhere: restored from their snapshots, exported, and kept for the next request."""
