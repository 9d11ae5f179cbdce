"""Shadow versions: a silent copy of the traffic, answered by another version and compared."""
