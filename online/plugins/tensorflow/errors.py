"""Errors in the words of TensorFlow Serving, which its clients match."""

from collections.abc import Iterable

from fastapi import Request

from online.errors import BadInput, NotFound, UnknownModel, UnknownVersion, UnknownVersionLabel
from online.plugins.tensorflow.tensor_signatures import MAX_ECHO_CHARS
from online.serving.versions import VersionSelector


class VersionErrors:
    """A context that replaces the errors of a version that cannot be requested."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, UnknownVersion):
            raise NotFound(f"Servable not found for request: Specific({error.model}, {error.version})") from None
        if isinstance(error, UnknownVersionLabel):
            raise BadInput(f"Unrecognized servable version label: {error.label}") from None


def unknown_servable(name: str, selector: VersionSelector, known: Iterable[str]) -> NotFound:
    """Return the error of a prediction by an unknown model."""
    version = "Latest(%s)" if selector.version is None else f"Specific(%s, {selector.version})"
    servable = version % name[:MAX_ECHO_CHARS]
    return UnknownModel(f"Servable not found for request: {servable}; this service has {', '.join(known)}", name)


def unknown_model(name: str, known: Iterable[str]) -> NotFound:
    """Return the error of the status of an unknown model."""
    return UnknownModel(
        f"Could not find any versions of model {name[:MAX_ECHO_CHARS]}; this service has {', '.join(known)}", name
    )


def malformed(request: Request) -> BadInput:
    """Return the error of a path that no route matches."""
    return BadInput(f"Malformed request: {request.method} {request.url.path[:200]}")
