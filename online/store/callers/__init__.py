"""Who calls: API keys, quotas, and feedback that is held."""
