"""The versions of a model that a caller may name, in every protocol, and their states."""

from typing import Literal

from online.serving.live import LiveModel


def known_versions(live: LiveModel) -> list[int]:
    """The live version, then the others that are loaded, being loaded or damaged, newest first."""
    others = {*live.available, *live.damaged, *live.loading} - {live.current.version, 0}
    return [live.current.version, *sorted(others, reverse=True)]


def version_state(live: LiveModel, version: int) -> Literal["START", "LOADING", "AVAILABLE", "END"]:
    """The state of a version, in the words of TensorFlow Serving.

    AVAILABLE: it can be requested. LOADING: it is being loaded. END: it is damaged. START: it is not loaded.
    """
    if version == live.current.version or version in live.available:
        return "AVAILABLE"
    return "LOADING" if version in live.loading else "END" if version in live.damaged else "START"
