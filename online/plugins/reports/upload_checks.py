"""Checks what an uploaded log may ask for.

An uploaded log comes from any caller. It may choose among the models of this service; nothing that
it names is imported, opened or run.
"""

from collections.abc import Mapping
from typing import get_args

from online.errors import BadInput
from online.models import KINDS, check_untrusted_options
from online.settings import Drift


def check_header(header: Mapping[str, object], name: str) -> None:
    """Check the model that a log of ours names. Raises BadInput."""
    kind, options, drift = header.get("kind"), header.get("options"), header.get("drift", "watch")
    if kind not in [*KINDS] or not isinstance(options, dict) or drift not in get_args(Drift):
        raise BadInput(f"{name}, line 1 names no model that is known here, or not its options: export the log again")
    check_options(kind, options)


def check_options(kind: object, options: Mapping[str, object]) -> None:
    """Raise BadInput for an option that names code, or builds an object, of the sender's choice."""
    try:
        check_untrusted_options(kind, options)
    except ValueError as error:
        raise refuse_option(str(error)) from None


def refuse_option(rule: str) -> BadInput:
    """Return the error for an option that is only for the command line."""
    return BadInput(f"of a log that is sent, {rule}; others are for `online replay`, where the code is")
