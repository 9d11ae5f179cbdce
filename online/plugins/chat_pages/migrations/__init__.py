"""The migrations of the tables of this plugin."""
