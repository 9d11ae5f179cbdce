"""Backups of a service, and their restoration."""
