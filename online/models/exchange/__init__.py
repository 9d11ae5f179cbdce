"""Files of integer sums, which a service and other devices exchange."""
