"""Files that a service and other devices exchange: integer sums, and deltas between two files."""
