"""What a service and other devices exchange: files of integer sums, and what changed between two files."""
