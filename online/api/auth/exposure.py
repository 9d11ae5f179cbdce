"""Refuses to listen beyond this machine without authentication."""

import logging

from online.api.auth.callers import Callers
from online.errors import SetupError
from online.settings import Settings
from online.telemetry import log_event

log = logging.getLogger("online.access")


def check_exposure(settings: Settings, callers: Callers) -> None:
    """Say who may do what without a key. Raises SetupError where other machines would find the service open."""
    if not callers.is_on_loopback and not callers.needs_keys and not settings.open:
        raise SetupError(
            f"the service would listen on {settings.host}, where other machines reach it, and there is no key: create one with "
            "`online keys create`, or set open = true to let every caller predict, teach and curate"
        )
    if settings.open:
        log_event(log, "open: every caller may predict, teach and curate", logging.WARNING, host=settings.host)
    elif callers.is_open_to_this_machine:
        log_event(log, "open to this machine: every program on it may do everything without a key")
