"""The service on a simulated event loop: ten thousand schedules, each decided by one number."""
