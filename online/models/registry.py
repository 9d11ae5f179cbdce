"""Creates models by the name of their kind, with the wrappers that their options ask for.

create(kind, options) -> model of the kind -> RetirableModel, if its classes can be retired
                      -> a model that contains two, if an option of a wrapper adds a second one
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import cast

from online.models.contract import Model, Options
from online.models.devices.placement import first_device
from online.models.kinds import (
    KINDS,
    KindSpec,
    find_kind,
    spans_devices,
    spec_of,
)
from online.models.options import Option, UnknownOption
from online.models.own_kinds import create_own
from online.models.retirement import RetirableModel
from online.models.wrappers import find_wrapper, list_wrappers


def create(kind: str, options: Options, device: str = "cpu") -> Model:
    """Return a model that has learned nothing. Raises ValueError for an unknown kind or a bad option.

    device: that it computes on; several, joined by commas, for a kind that spans devices.

    The options of wrappers, which every kind has, add a second model: see `wrappers`.
    """
    spec = spec_of(kind)
    if not spans_devices(kind, options):
        device = first_device(device)
    if wrapper := find_wrapper(options):
        return wrapper.create(kind, options, device)
    try:
        model = load_class(spec)(options, device) if kind in KINDS else create_own(spec, options, device)
    except UnknownOption as error:
        kinds = list_options().get(error.name, [])
        if kinds:
            raise ValueError(f"{error}; it is an option of {', '.join(kinds)}") from None
        if isinstance(options.get(error.name), Mapping):  # as the options of wrappers are, which plugins contribute
            raise ValueError(f"{error}; remove it, or install the plugin that it is an option of") from None
        raise ValueError(str(error)) from None
    if spec.has_retirable_classes:
        return RetirableModel(model, options.get("abstain_below", 0.0))
    return model


def load_class(spec: KindSpec) -> Callable[[Options, str], Model]:
    """Import the class of a kind."""
    return cast(Callable[[Options, str], Model], getattr(load_module(spec), spec.path.partition(":")[2]))


def load_module(spec: KindSpec) -> ModuleType:
    """Import the module of a kind."""
    return import_module(spec.path.partition(":")[0])


def recipe(kind: str, options: Options) -> str:
    """Identify a kind with its options: a snapshot of another recipe is not loaded.

    The secret `key` is left out, and so is what does not change a state: the devices of members, how processes
    hold a tower, and how often the service lets a policy explore.
    """
    public = {name: value for name, value in options.items() if name != "key"}
    spec = find_kind(kind)
    if spec is not None and spec.has_parts:
        public.pop("parallel", None)
    if spec is not None and spec.explores:
        public.pop("explore_user_share", None)
    for name in spec.unlearned_options if spec is not None else ():
        public.pop(name, None)
    if "members" in public and spec is not None and spec.spans_devices:
        public["members"] = [without_device(member) for member in options.get("members", ())]
    return hashlib.sha256(json.dumps([kind, public], sort_keys=True).encode()).hexdigest()[:16]


def without_device(member: object) -> object:
    """Return the table of a member of an ensemble, without the device that it names."""
    if not isinstance(member, Mapping):
        return member
    return {name: value for name, value in member.items() if name != "device"}


def describe_options(kind: str) -> tuple[Option, ...]:
    """Return the options of a kind, for its reference: its own ones, then those of wrappers, which every kind has.

    Imports the module of the kind, or that of its options. Raises ValueError for an unknown kind.
    """
    spec = spec_of(kind)
    own: tuple[Option, ...] = getattr(import_module(spec.options) if spec.options else load_module(spec), "OPTIONS", ())
    return (*own, *(wrapper.option for wrapper in list_wrappers()))


def list_options() -> dict[str, list[str]]:
    """Return every option, with the kinds that have it. Imports, of all kinds that can be imported here, what `describe_options` does."""
    found = dict[str, list[str]]()
    for kind in KINDS:
        with suppress(ImportError):
            for option in describe_options(kind):
                found.setdefault(option.name, []).append(kind)
    return found


def check_untrusted_options(kind: object, options: Options) -> None:
    """Raise ValueError for a kind or an option with which its sender could choose code to run.

    For options that come with an uploaded file. Of kinds, only the built-in ones may be named. `create` checks
    everything else about the options.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"the kind of a model must be one of {', '.join(KINDS)}, not {str(kind)[:40]!r}")
    if wrapper := find_wrapper(options):
        table = options[wrapper.option.name]
        if not isinstance(table, Mapping) or not isinstance(table.get("options", {}), Mapping):
            raise ValueError(f"option {wrapper.option.name!r} must be a table, and so must its options")
        check_untrusted_options(table.get("kind") or kind, table.get("options", {}))
    if KINDS[kind].options_can_load_code:
        load_module(KINDS[kind]).check_untrusted(options)
