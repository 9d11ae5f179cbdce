"""The table of model kinds and what each of them can do.

    kind's name --spec_of--> KindSpec: task, inputs, whether its texts can be encoded again, ...

Callers ask a `KindSpec` instead of comparing names, so that a new kind is one entry of this table
and one module. A kind's module is imported by `registry.create`, when a model of it is created.

KINDS holds what the core and the installed plugins provide: what is sent may name these alone. ADMITTED holds the kinds of the operator,
which `own_kinds.admit` adds for a name on the command line or in online.toml, and nothing else.
"""

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, Literal

from online.installed import collect_all
from online.models.contract import Options
from online.models.wrappers import list_added_kinds
from online.schemas.json_values import JSONObject

Task = Literal["classification", "regression", "ranking", "routing"]
Input = Literal["text", "vector", "table"]
CHAT_LANGUAGE, ANY_LANGUAGE = "en", "any"  # of the option `language`
EXPLORE_USER_SHARE = 0.1  # default of the option `explore_user_share`
MINILM, HASHED = "minilm", "hashed"  # of the option `text_features`
ALL_INPUTS: tuple[Input, ...] = ("text", "vector", "table")


@dataclass(frozen=True, slots=True)
class KindSpec:
    """The abilities of a kind of model.

    path: "module:class", imported when a model is created. inputs: what its instances may be; a
    kind with several has an option `input` that selects one. is_exact: any order and any batches of
    the same examples leave the same state, and examples are subtracted (within what the kind's
    options allow: see `Model.subtracts`). can_re_encode_texts: it learns from text features that a
    tuned encoder can replace, and has an option `encoder`. can_hash_texts: it has an option `text_features`. state_is_signed: reading its state could
    run code, so the state carries a signature made with the option `key`. is_ensemble: it contains
    other models. options_can_load_code: an option names code to import or objects to build. adapts: after an alarm of
    drift it may answer otherwise than from all examples alike. has_parts: several processes can learn the
    parts of its steps. has_partial_sums: several processes can sum its
    examples (`contract.SummingModel`), as far as its options allow. merges_sums: the sums of a device can be added to its
    own and subtracted again, as far as its options allow (`contributions`). spans_devices: it is created with several devices, joined
    by commas, and its parts compute on all of them. graph: "module:function", imported when a version is exported: it builds the
    served answer as a graph, for a kind of a plugin (`online.plugins.export.kinds` has those of ours). options: the module
    that has its OPTIONS, where its own one takes long to import. encoder: "module:function", imported when an encoder is created: it
    returns the encoder of the kind, made of the one that reads its texts and the longest text. unlearned_options: those that decide
    what is answered and not what is learned: changing one leaves the snapshots as they are.
    """

    name: str
    path: str
    task: Task
    inputs: tuple[Input, ...] = ALL_INPUTS
    is_exact: bool = False
    can_re_encode_texts: bool = False
    can_hash_texts: bool = False
    state_is_signed: bool = False
    is_ensemble: bool = False
    options_can_load_code: bool = False
    adapts: bool = False
    has_partial_sums: bool = False
    merges_sums: bool = False
    has_parts: bool = False
    spans_devices: bool = False
    graph: str = ""
    options: str = ""
    encoder: str = ""
    unlearned_options: tuple[str, ...] = ()

    @property
    def predicts_numbers(self) -> bool:
        """Answers are numbers with intervals, so they are near or far, never right or wrong."""
        return self.task == "regression"

    @property
    def has_repertoire(self) -> bool:
        """Answers are replies from a repertoire that callers teach and edit."""
        return self.task == "ranking"

    @property
    def explores(self) -> bool:
        """A policy may draw the answer from several candidates; its propensity is logged."""
        return self.task in ("ranking", "routing")

    @property
    def has_routes(self) -> bool:
        """Answers are routes: which language model is to answer."""
        return self.task == "routing"

    @property
    def has_right_answers(self) -> bool:
        """Whether versions can be compared by how often they answer rightly: not by numbers, which are near or far, nor by routes,
        among which the budget decides too.
        """
        return not self.predicts_numbers and not self.has_routes

    @property
    def is_guarded(self) -> bool:
        """Whether more wrong answers may mean that it was taught wrongly: of a router, the models behind its routes may have changed."""
        return not self.has_routes

    @property
    def has_retirable_classes(self) -> bool:
        """Answers are classes, and each of them can be retired and restored."""
        return self.task == "classification"

    @property
    def can_be_member(self) -> bool:
        """Whether it can be one of the contenders of a `best_of` model."""
        return self.task == "classification" and not self.is_ensemble

    @property
    def has_input_option(self) -> bool:
        """Whether the options `input` and `size` decide what it reads."""
        return len(self.inputs) > 1

    @property
    def answers(self) -> str:
        """What it learns and answers, as a plural noun for messages."""
        return {"classification": "classes", "regression": "numbers", "ranking": "replies", "routing": "routes"}[
            self.task
        ]


def classifier(name: str, path: str, **facts: Any) -> KindSpec:
    """Return the entry of a kind whose answers are classes."""
    return KindSpec(name, path, "classification", **facts)


CORE_KINDS = (
    KindSpec(
        "ranker",
        "online.models.ranker.ranker:Ranker",
        "ranking",
        inputs=("text",),
        is_exact=True,
        can_re_encode_texts=True,
    ),
    classifier(
        "classifier",
        "online.models.classifier:Classifier",
        is_exact=True,
        can_re_encode_texts=True,
        can_hash_texts=True,
        adapts=True,
        has_partial_sums=True,
        merges_sums=True,
    ),
    classifier(
        "majority",
        "online.models.statistics.majority:Majority",
        is_exact=True,
        has_partial_sums=True,
    ),
    classifier(
        "logistic",
        "online.models.logistic:Logistic",
        inputs=("vector", "table"),
        adapts=True,
    ),
)


class KindTable(MutableMapping[str, KindSpec]):
    """Every kind by its name: those of the core, then those of plugins. It is complete from its first use on."""

    def __init__(self) -> None:
        self._specs: dict[str, KindSpec] = {}

    @property
    def specs(self) -> dict[str, KindSpec]:
        """The kinds by name: those of the core and of every plugin."""
        if not self._specs:
            self._specs = {spec.name: spec for spec in (*CORE_KINDS, *collect_all("kinds"))}
        return self._specs

    def __getitem__(self, name: str) -> KindSpec:
        return self.specs[name]

    def __setitem__(self, name: str, spec: KindSpec) -> None:
        self.specs[name] = spec

    def __delitem__(self, name: str) -> None:
        del self.specs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.specs)

    def __len__(self) -> int:
        return len(self.specs)


KINDS = KindTable()


ADMITTED: dict[str, KindSpec] = {}


def find_kind(kind: str) -> KindSpec | None:
    """Return the entry of a built-in or an admitted kind; None for any other name."""
    return KINDS.get(kind) or ADMITTED.get(kind)


def spec_of(kind: str) -> KindSpec:
    """Return the entry of a kind. Raises ValueError, which lists the kinds, for an unknown name."""
    spec = find_kind(kind)
    if spec is None:
        raise ValueError(f"unknown model kind {kind!r}; use one of {', '.join([*KINDS, *ADMITTED])}")
    return spec


def kinds_of(kind: str, options: Options) -> list[KindSpec]:
    """Return the entries of a model and of those that its options add (`wrappers`), without those of unknown names."""
    names = (kind, *list_added_kinds(kind, options))
    return [spec for name in names if (spec := find_kind(name)) is not None]


def state_is_signed(kind: str) -> bool:
    """Return whether a state of this kind is signed; False for an unknown kind, which `create` refuses."""
    spec = find_kind(kind)
    return spec is not None and spec.state_is_signed


def input_options(kind: str, options: Options) -> JSONObject:
    """Return what a model reads: `input` (text, vector or table) and `size`, the length of a vector."""
    spec = find_kind(kind)
    if spec is not None and not spec.has_input_option:
        return {"input": spec.inputs[0], "size": 0}
    return {"input": options.get("input", "text"), "size": int(options.get("size", 0))}


def encoder_options(kind: str, options: Options) -> JSONObject:
    """Return what its encoder depends on.

    That is what the model reads, what texts become, and the language that people type in; "" for texts read as they come.
    """
    chats = kind in KINDS and KINDS[kind].has_repertoire
    language = str(options.get("language", CHAT_LANGUAGE)) if chats else ANY_LANGUAGE
    return {
        **input_options(kind, options),
        "language": "" if language == ANY_LANGUAGE else language,
        "text_features": str(options.get("text_features", MINILM)),
        **({"encoder_path": spec.encoder} if (spec := find_kind(kind)) is not None and spec.encoder else {}),
    }


def explore_user_share(kind: str, options: Options) -> float:
    """Return the largest share of a user's answers within an hour that may be another reply than the best one; 1 for routes."""
    spec = find_kind(kind)
    if spec is not None and spec.has_routes:  # whose draws keep the budget
        return 1.0
    return float(options.get("explore_user_share", EXPLORE_USER_SHARE))


def is_exact(kind: str, options: Options) -> bool:
    """Return whether a model, and each that its options add, has the same state wherever the same events are learned."""
    specs = kinds_of(kind, options)
    return len(specs) == 1 + len(list_added_kinds(kind, options)) and all(spec.is_exact for spec in specs)


def can_tune_encoder(kind: str, options: Options) -> bool:
    """Return whether a model, and each that its options add, reads texts by an encoder that can be tuned."""
    specs = kinds_of(kind, options)
    expected = 1 + len(list_added_kinds(kind, options))
    reads_texts = options.get("input", "text") == "text" and options.get("text_features", MINILM) == MINILM
    return reads_texts and len(specs) == expected and all(spec.can_re_encode_texts for spec in specs)


def can_adapt(kind: str, options: Options) -> bool:
    """Return whether a model, or one that its options add, may answer otherwise after an alarm of drift than from all examples alike."""
    keeps_recent = bool(options.get("recent", True) or options.get("drift_window"))
    return keeps_recent and any(spec.adapts for spec in kinds_of(kind, options))


def spans_devices(kind: str, options: Options) -> bool:
    """Return whether a model computes on all devices of its placement: its members, or the layers of a tower that is split."""
    spec = find_kind(kind)
    if spec is None:
        return False
    return spec.spans_devices or (spec.has_parts and options.get("parallel", "ddp") != "ddp")


def follows_changes(kind: str, options: Options) -> bool:
    """Return whether a model, or one that its options add, comes to answer what is right after a change of the world.

    It adapts after an alarm, or it learns step by step, so that the newest examples count more than all before them.
    """
    return can_adapt(kind, options) or any(not spec.is_exact for spec in kinds_of(kind, options))
