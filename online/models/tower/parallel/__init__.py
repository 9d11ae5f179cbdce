"""Towers that several processes or devices learn together."""
