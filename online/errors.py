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


class NotFound(OnlineError, LookupError):
    """No such model, prediction, feedback, reply, label or version."""

    status = 404


class Conflict(OnlineError):
    """The same id was used before for something else."""

    status = 409


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
