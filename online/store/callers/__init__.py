"""Tables about callers: API keys, quotas, held feedback, and the audit log."""
