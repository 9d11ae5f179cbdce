"""Creates models by the name of their kind, with the wrappers that their options ask for.

create(kind, options) -> model of the kind -> RetirableModel, if its classes can be retired
                      -> ChampionChallenger, if there is an option `challenger`
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import cast

from online.models.challenger import CHALLENGER, CHAMPION, OPTIONS, ChampionChallenger
from online.models.contract import Model, Options
from online.models.devices.placement import first_device
from online.models.kinds import (
    KINDS,
    MINILM,
    KindSpec,
    can_tune_encoder,
    challenger_of,
    find_kind,
    input_options,
    spans_devices,
    spec_of,
)
from online.models.options import Option, UnknownOption, resolve
from online.models.own_kinds import create_own
from online.models.retirement import RetirableModel
from online.schemas.json_values import JSONObject

# what a challenger shares with its champion, which alone declares it
SHARED_OPTIONS = frozenset({"input", "size", "text_features", "encoder", "language", "key", "challenger"})

CHALLENGER_OPTION = Option(
    "challenger",
    {},
    "A second model that learns beside this one and takes over if it proves better: a table of kind, options, "
    "patience and score_every. Set it to try another kind or other options on live feedback.",
)


def create(kind: str, options: Options, device: str = "cpu") -> Model:
    """Return a model that has learned nothing. Raises ValueError for an unknown kind or a bad option.

    device: that it computes on; several, joined by commas, for a kind that spans devices.

    The option `challenger`, which every kind has, adds a second model that learns beside it: see
    `ensembles.challenger`.
    """
    spec = spec_of(kind)
    if not spans_devices(kind, options):
        device = first_device(device)
    if "challenger" in options:
        return _with_challenger(spec, options, device)
    try:
        model = load_class(spec)(options, device) if kind in KINDS else create_own(spec, options, device)
    except UnknownOption as error:
        kinds = list_options().get(error.name, [])
        raise ValueError(f"{error}; it is an option of {', '.join(kinds)}" if kinds else str(error)) from None
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
    if "members" in public and spec is not None and spec.spans_devices:
        public["members"] = [without_device(member) for member in options.get("members", ())]
    return hashlib.sha256(json.dumps([kind, public], sort_keys=True).encode()).hexdigest()[:16]


def without_device(member: object) -> object:
    """Return the table of a member of an ensemble, without the device that it names."""
    if not isinstance(member, Mapping):
        return member
    return {name: value for name, value in member.items() if name != "device"}


def _with_challenger(champion: KindSpec, options: Options, device: str) -> Model:
    if not isinstance(options["challenger"], Mapping):
        raise ValueError("option 'challenger' must be a table with kind, options, patience and score_every")
    table = resolve(options["challenger"], OPTIONS)
    challenger = challenger_of(champion.name, options)
    own = {name: value for name, value in options.items() if name != "challenger"}
    if not champion.state_is_signed:
        own.pop("key", None)  # it is there for the challenger
    completed = challenger_options(champion, options, challenger, table["options"])
    factories = {
        CHAMPION: lambda: create(champion.name, own, device),
        CHALLENGER: lambda: create(challenger, completed, device),
    }
    return ChampionChallenger(factories, table["patience"], table["score_every"], champion.predicts_numbers)


def challenger_options(champion: KindSpec, options: Options, kind: str, own: Options) -> JSONObject:
    """Return a challenger's own options, completed with what its champion's options say about the inputs.

    Raises ValueError if the kind cannot be the challenger, or sets an option of its champion.
    """
    spec = find_kind(kind)
    if spec is None or not spec.can_challenge(champion):
        raise ValueError(
            f"{kind!r} cannot be the challenger of a {champion.name}: it must learn {champion.answers} too"
        )
    taken = sorted(SHARED_OPTIONS & set(own))
    if taken:
        raise ValueError(f"option {taken[0]!r} cannot be set for a challenger, which uses its champion's; remove it")
    seen = input_options(champion.name, options)
    able = input_options(kind, seen)["input"]
    if able != seen["input"]:
        raise ValueError(
            f"a {kind} model reads {able}s, so it cannot be the challenger of a model with input = {seen['input']!r}"
        )
    shared = seen if spec.has_input_option else {}
    if spec.has_repertoire and "language" in options:
        shared["language"] = options["language"]
    if options.get("text_features", MINILM) != MINILM:
        if not spec.can_hash_texts:
            raise ValueError(f"a {kind} cannot be the challenger of a model with hashed text features")
        shared["text_features"] = options["text_features"]
    if options.get("encoder"):
        if not can_tune_encoder(kind, shared):
            raise ValueError(f"a {kind} cannot be the challenger of a model with a tuned encoder")
        shared["encoder"] = options["encoder"]
    if spec.state_is_signed and "key" in options:
        shared["key"] = options["key"]
    return {**own, **shared}


def describe_options(kind: str) -> tuple[Option, ...]:
    """Return the options of a kind, for its reference: its own ones, then `challenger`, which every kind has.

    Imports the module of the kind. Raises ValueError for an unknown kind.
    """
    own: tuple[Option, ...] = getattr(load_module(spec_of(kind)), "OPTIONS", ())
    return (*own, CHALLENGER_OPTION)


def list_options() -> dict[str, list[str]]:
    """Return every option, with the kinds that have it. Imports the modules of all kinds that can be imported here."""
    found = dict[str, list[str]]()
    for kind in KINDS:
        with suppress(ImportError):
            for option in describe_options(kind):
                found.setdefault(option.name, []).append(kind)
    return found


def describe_challenger_options() -> tuple[Option, ...]:
    """Return the options inside the table `challenger`."""
    return OPTIONS


def check_untrusted_options(kind: object, options: Options) -> None:
    """Raise ValueError for a kind or an option with which its sender could choose code to run.

    For options that come with an uploaded file. Of kinds, only the built-in ones may be named. `create` checks
    everything else about the options.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"the kind of a model must be one of {', '.join(KINDS)}, not {str(kind)[:40]!r}")
    if "challenger" in options:
        challenger = options["challenger"]
        if not isinstance(challenger, Mapping) or not isinstance(challenger.get("options", {}), Mapping):
            raise ValueError("option 'challenger' must be a table, and so must its options")
        check_untrusted_options(challenger_of(kind, options), challenger.get("options", {}))
    if KINDS[kind].options_can_load_code:
        load_module(KINDS[kind]).check_untrusted(options)
