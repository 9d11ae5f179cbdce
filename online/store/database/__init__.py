"""The database connection: engines, the writer thread, checkpoints, metadata."""
