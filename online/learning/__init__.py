"""A process that reads, learns and publishes; it never answers."""
