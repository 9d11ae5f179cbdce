"""Features that plug into the core: one folder each, from route to table. See online/plugin.py."""
