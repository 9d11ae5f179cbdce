"""Everything that can go wrong and whose fault it is: one tree, each class with its HTTP status.

A message says what happened, what was given and what to do. It never carries a path, a traceback or a secret.
"""


class OnlineError(Exception):
    """The root. `status` is the HTTP status an API answers with."""

    status = 500


class BadInput(OnlineError, ValueError):
    """The caller sent something that cannot be meant."""

    status = 400


class TooLarge(BadInput):
    """The caller sent more than a limit allows; the limit is a setting."""

    status = 413


class PreconditionFailed(BadInput):
    """It can be meant, but not of what there is now."""


class Unauthorized(OnlineError):
    """The caller did not say who it is, or not rightly."""

    status = 401


class Forbidden(OnlineError):
    """The caller shows nothing, or nothing valid, that would let it do this."""

    status = 403


class NotFound(OnlineError, LookupError):
    """No such model, prediction, feedback, reply, label or version."""

    status = 404


class Conflict(OnlineError):
    """The same id was used before for something else."""

    status = 409


class Overloaded(OnlineError):
    """More wait to be answered than may; nothing was done. Try again a little later."""

    status = 429


class DeadlineExceeded(OnlineError):
    """The time that the caller gave was over before its turn came; nothing was done."""

    status = 504


class NotLearnedYet(OnlineError):
    """The caller asked to read its own write and the time it gave was too short."""

    status = 504


class Unavailable(OnlineError):
    """The store, the stream or a model cannot be reached now; nothing was changed."""

    status = 503


class EncoderMoved(Unavailable):
    """Features were made by another encoder than those in the store; nothing was changed: make them again."""


class CorruptSnapshot(OnlineError):
    """A snapshot's files do not match its manifest. It never goes live."""


class SetupError(OnlineError):
    """The service cannot start as it is configured. The command line prints the message and exits with 2."""
