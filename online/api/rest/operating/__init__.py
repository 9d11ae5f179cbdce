"""Routes for those who operate a service: its use, and its alerts."""
