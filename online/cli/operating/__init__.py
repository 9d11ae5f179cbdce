"""Commands for those who operate a service."""
