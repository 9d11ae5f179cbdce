"""Reports of replays: pages with plots, tables, CSV and JSON."""
