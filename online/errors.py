"""The tree of errors. Each class has the HTTP status that the API answers with.

A message says what is invalid, the value, and the remedy. It never carries a traceback or a secret.
"""

import errno
from collections.abc import Iterable, Mapping
from typing import Self


class OnlineError(Exception):
    """The root of the tree. `status` is the HTTP status of the answer.

    code, figures: the same as the message for programs, which a page words in its own language; "" without one.
    """

    status = 500
    code = ""
    figures: Mapping[str, float | int | str] = {}

    def because(self, code: str, **figures: float | int | str) -> Self:
        """Set the code and the figures, and return the error."""
        self.code, self.figures = code, figures
        return self


class BadInput(OnlineError, ValueError):
    """The request is invalid."""

    status = 400


class TooLarge(BadInput):
    """The request is larger than a limit allows. The limit is a setting."""

    status = 413


class UnsupportedCoding(OnlineError):
    """The body is compressed in a way that is not read here."""

    status = 415


class TextTooLong(TooLarge):
    """A text has more characters than the setting `max_text_chars` allows. given, limit: numbers of characters."""

    def __init__(self, what: str, given: int, limit: int) -> None:
        super().__init__(f"{what} has {given} characters; shorten it to at most {limit} (max_text_chars)")
        self.given, self.limit = given, limit


class PreconditionFailed(BadInput):
    """The request is valid, but not in the present state."""


class Unauthorized(OnlineError):
    """The request has no credentials, or wrong ones."""

    status = 401


class Forbidden(OnlineError):
    """The caller is not allowed to do this."""

    status = 403


class UnknownHost(OnlineError):
    """The request names a host that this service does not answer for."""

    status = 421


class NotFound(OnlineError, LookupError):
    """There is no such model, prediction, feedback, reply, class, label or version."""

    status = 404


class UnknownModel(NotFound):
    """This service has no such model. Another replica may have it."""

    def __init__(self, text: str, model: str) -> None:
        super().__init__(text)
        self.model = model


class NotServed(OnlineError):
    """The path is one of OpenAI's API, and of a part that is not served here."""

    status = 404


class UnknownVersion(NotFound):
    """A model has no such version that can be requested.

    Protocols with a sentence of their own read the attributes.
    """

    def __init__(self, model: str, version: int) -> None:
        super().__init__(f"version {version} of {model} cannot be requested; label a version to keep it available")
        self.model, self.version = model, version


class UnknownVersionLabel(BadInput):
    """No version of a model has this label. Protocols with a sentence of their own read the attribute."""

    def __init__(self, model: str, label: str, known: Iterable[str]) -> None:
        super().__init__(f"Unrecognized version label {label[:80]!r}; {model} has {', '.join(known)}")
        self.label = label


class Conflict(OnlineError):
    """The id was used before with other content."""

    status = 409


class CannotExport(OnlineError):
    """This model cannot be written in this format, or not by this installation."""

    status = 409


class AlreadyDecided(Conflict):
    """Somebody else decided about an item before. by: the id of that caller. action: what they decided."""

    def __init__(self, item: str, by: str, action: str) -> None:
        super().__init__(f"{by} decided about {item!r} before: {action}; read the inbox again")
        self.by, self.action = by, action


class Overloaded(OnlineError):
    """Too many requests are waiting. Nothing was done; the caller may try again later."""

    status = 429


class QuotaExceeded(OnlineError):
    """The caller has used up what it may do within a time. Nothing was done."""

    status = 429

    def __init__(self, text: str, retry_after_s: int) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class DeadlineExceeded(OnlineError):
    """The caller's deadline passed before the request was processed. Nothing was done."""

    status = 504


class NotLearnedYet(OnlineError):
    """The offset that the caller asked for was not learned within the time it gave."""

    status = 504


class Unavailable(OnlineError):
    """The store, the stream or a model cannot be reached. Nothing was changed."""

    status = 503


class InsufficientStorage(OnlineError):
    """The disk has too little free space. Nothing was changed."""

    status = 507


class NewerRelease(Unavailable):
    """Something that a newer release has written, in a form that this one does not know. It is not skipped."""

    def __init__(self, what: str, unknown: object) -> None:
        super().__init__(
            f"{what} has {unknown!r}, which this version of online does not know: a newer one has written it; nothing was skipped: "
            "install that version here"
        )


class EncoderMoved(Unavailable):
    """The encoder has changed since the features were computed: compute them again."""


class BrokenCopy(Unavailable):
    """The copy of the log in Redis lacks entries, or holds what this service did not write."""


class LogReplaced(Unavailable):
    """The log is not the one that was learned: it went back in time, or it is another log."""


class LearningLost(Unavailable):
    """A process that held a part of a model is gone: it is learned again from the last durable version."""


class LeaseLost(OnlineError):
    """Another replica has the lease on a model that one replica alone may learn. Nothing was changed."""

    status = 503


class CorruptSnapshot(OnlineError):
    """The files of a snapshot do not match its manifest. It never becomes live."""


class SetupError(OnlineError):
    """The service cannot start with this configuration. The command line exits with status 2."""


NO_FREE_FILES = errno.EMFILE, errno.ENFILE


def describe_error(error: Exception) -> tuple[int, str]:
    """Return the status and the sentence with which a request is answered that failed; no internal details of an unknown error."""
    if isinstance(error, OnlineError):
        return error.status, str(error)
    if isinstance(error, OSError) and error.errno in NO_FREE_FILES:
        return 503, "the service can open no more files (ulimit -n); try again later"
    return 500, f"internal error: {type(error).__name__}; the log of the service has the details"
