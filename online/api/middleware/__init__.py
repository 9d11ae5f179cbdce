"""ASGI middleware in front of every route."""
