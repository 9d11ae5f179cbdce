"""The option `challenger`, which every kind has: a second model that learns beside a model and takes over if it proves better.

options of a model --challenger_options--> those of its challenger: its own, and what they share --create--> ChampionChallenger
"""

from collections.abc import Mapping
from typing import cast

from online.models.contract import Model, Options
from online.models.kinds import MINILM, KindSpec, can_tune_encoder, find_kind, input_options, spec_of
from online.models.options import Option, resolve
from online.models.registry import create
from online.models.wrappers import ModelWrapper
from online.plugins.ensembles.challenger import CHALLENGER, CHAMPION, OPTIONS, ChampionChallenger, describe_records
from online.schemas.json_values import JSONObject

# what a challenger shares with its champion, which alone declares it
SHARED_OPTIONS = frozenset({"input", "size", "text_features", "encoder", "language", "key", CHALLENGER})


class ChallengerOption(ModelWrapper):
    """The option, as the table of wrappers has it."""

    option = Option(
        CHALLENGER,
        {},
        "A second model that learns beside this one and takes over if it proves better: a table of kind, options, "
        "patience and score_every. Set it to try another kind or other options on live feedback.",
    )

    def list_options(self) -> tuple[Option, ...]:
        """Return the options in the table."""
        return OPTIONS

    def create(self, kind: str, options: Options, device: str) -> Model:
        """Return a champion with its challenger. Raises ValueError."""
        champion = spec_of(kind)
        if not isinstance(options[CHALLENGER], Mapping):
            raise ValueError("option 'challenger' must be a table with kind, options, patience and score_every")
        table = resolve(options[CHALLENGER], OPTIONS)
        challenger = table["kind"] or kind
        own = {name: value for name, value in options.items() if name != CHALLENGER}
        if not champion.state_is_signed:
            own.pop("key", None)  # it is there for the challenger
        completed = challenger_options(champion, options, challenger, table["options"])
        factories = {
            CHAMPION: lambda: create(kind, own, device),
            CHALLENGER: lambda: create(challenger, completed, device),
        }
        return ChampionChallenger(factories, table["patience"], table["score_every"], champion.predicts_numbers)

    def find_answering(self, kind: str, options: Options, model: Model) -> tuple[str, Model]:
        """Return the kind and the object of the served one."""
        pair = cast(ChampionChallenger, model)
        challenger = options[CHALLENGER].get("kind") or kind
        return challenger if pair.served == CHALLENGER else kind, pair.models[pair.served]

    def name_answering(self, metrics: Mapping[str, float]) -> str:
        """Return which of both answers."""
        served = metrics.get(f"{CHALLENGER}_served")
        return "" if served is None else CHALLENGER if served else CHAMPION

    def describe_figures(self, metrics: Mapping[str, float]) -> str:
        """Return the figures of both in one line."""
        return describe_records(metrics)


def challenger_options(champion: KindSpec, options: Options, kind: str, own: Options) -> JSONObject:
    """Return a challenger's own options, completed with what its champion's options say about the inputs.

    Raises ValueError if the kind cannot be the challenger, or sets an option of its champion.
    """
    spec = find_kind(kind)
    if spec is None or spec.task != champion.task:
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
