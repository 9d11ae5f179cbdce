"""Cohorts: clients whose sums the service adds without seeing the sums of one (secure aggregation)."""
