"""The process that reads the stream, learns and publishes snapshots. It never answers requests."""
