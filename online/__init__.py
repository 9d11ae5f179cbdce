"""online: a service for a model that keeps learning while it serves.

Serving answers and remembers. Learning reads what was remembered and publishes better weights. They meet in three
places: the store (what happened), the stream (what to learn from, in order) and the snapshots (what to serve).
"""

__version__ = "0.1.0"
