"""The revisions up to 0009."""
