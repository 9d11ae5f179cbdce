"""Feedback as other chat pages send it: Open WebUI and LibreChat."""
