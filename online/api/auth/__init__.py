"""Callers: their credentials, scopes and cookies."""
