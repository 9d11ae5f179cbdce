"""`online erase`."""
