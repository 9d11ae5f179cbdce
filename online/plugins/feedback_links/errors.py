"""The errors of feedback URLs, each with a page of its own (messages.py)."""

from online.errors import Forbidden, NotFound


class LinkInvalid(Forbidden):
    """A signed URL was changed, or another service signed it."""


class LinkExpired(Forbidden):
    """A signed URL is older than it may be."""


class PredictionErased(NotFound):
    """A prediction was deleted, or its words were erased."""
