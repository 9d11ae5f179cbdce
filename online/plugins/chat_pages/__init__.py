"""Feedback as other chat pages send it: Open WebUI, LibreChat, and clients of Langfuse."""
