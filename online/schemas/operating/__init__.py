"""Schemas for operators: usage and devices."""
