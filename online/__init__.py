"""online: a service for a model that keeps learning while it serves.

Serving answers and remembers. Learning reads what was remembered and publishes better weights. They meet in three
places: the store (what happened), the stream (what to learn from, in order) and the snapshots (what to serve).
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`from online import Client`, found when it is asked for: whoever imports a part of us need not load it."""
    if name not in ("AsyncClient", "Client", "ClientError"):
        raise AttributeError(f"module 'online' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module("online.client"), name)
    return found
