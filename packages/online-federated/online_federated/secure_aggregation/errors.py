"""The error that ends an aggregation."""


class AggregationFailed(ValueError):
    """A message is invalid, too few clients are left, or shares do not fit: there is no sum, and nothing was revealed."""
