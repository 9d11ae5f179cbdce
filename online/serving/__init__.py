"""A process that answers and remembers; it never trains."""
