"""Schemas of exchanges with other devices: exported files, and the rounds of a cohort."""
