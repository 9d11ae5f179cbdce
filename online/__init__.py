"""A service for a model that keeps learning while it serves.

Serving answers and records. Learning reads what was recorded and publishes better weights. They
meet in three places: the store (what happened), the stream (what to learn from, in order) and the
snapshots (what to serve).
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the client only for `from online import Client`: other imports stay light."""
    if name not in ("AsyncClient", "Client", "ClientError"):
        raise AttributeError(f"module 'online' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module("online.client"), name)
    return found
