"""Tables about callers: API keys, quotas, standing, and held feedback."""
