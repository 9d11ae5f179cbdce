"""Learning on several processes and devices."""
