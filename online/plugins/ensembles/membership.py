"""Creates the members of an ensemble: kinds that learn classes, from the inputs of the ensemble."""

from collections.abc import Mapping

from online.models.contract import Model, Options
from online.models.kinds import find_kind
from online.models.registry import check_untrusted_options, create
from online.models.retirement import unwrap

RESERVED = ("kind", "device")  # of a member's table; all else are options of its kind


def create_member(who: str, own: Options, shared: Options, device: str) -> Model:
    """Return a member with nothing learned. Raises ValueError if it cannot take part.

    who: names it in errors. own: its table of a kind and its options. shared: the ensemble's `input`, `size` and `key`.
    What is retired, is so for the whole ensemble: the member itself knows nothing of that.
    """
    kind = own.get("kind") if isinstance(own, Mapping) else None
    spec = find_kind(kind) if isinstance(kind, str) else None
    if not isinstance(kind, str) or (spec is not None and not spec.can_be_member):
        raise ValueError(f"{who} needs the 'kind' of a model that learns classes, not {kind!r}")
    if kind == "river" and shared["input"] != "table":
        raise ValueError(f"{who} is a river model and reads tables, not input = {shared['input']!r}")
    given = {"key": shared["key"]} if spec is not None and spec.state_is_signed else {}
    if spec is None or spec.has_input_option:
        given["input"] = shared["input"]
    if shared["input"] == "vector":
        given["size"] = shared["size"]
    options = {name: value for name, value in own.items() if name not in RESERVED}
    if "text_features" in options:
        raise ValueError(f"{who} cannot set option 'text_features': members read what their ensemble reads")
    model = create(kind, given | options, device)
    return unwrap(model)


def check_untrusted_member(own: object) -> None:
    """Raise ValueError for a member with which its sender could choose code to run."""
    if not isinstance(own, Mapping):
        raise ValueError("a member of an ensemble must be a table")
    check_untrusted_options(own.get("kind"), own)
