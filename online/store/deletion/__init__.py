"""Retention in the store: deletes old records, and the contents of events that have expired."""
