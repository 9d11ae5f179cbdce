"""Small files of the kinds that people have."""
