"""Cohorts: secure aggregation over REST, whose sum becomes one contribution."""
