"""The inbox of curators: open items in groups, decisions about them, and their undo."""
