"""The table of model kinds and what each of them can do.

    kind's name --spec_of--> KindSpec: task, inputs, whether its texts can be encoded again, ...

Callers ask a `KindSpec` instead of comparing names, so that a new kind is one entry of this table
and one module. A kind's module is imported by `registry.create`, when a model of it is created.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from online.models.contract import Options

Task = Literal["classification", "regression", "ranking"]
Input = Literal["text", "vector", "table"]
ALL_INPUTS: tuple[Input, ...] = ("text", "vector", "table")


@dataclass(frozen=True, slots=True)
class KindSpec:
    """What a kind of model can do.

    path: "module:class", imported when a model is created. inputs: what its instances may be; a
    kind with several has an option `input` that selects one. is_exact: any order and any batches of
    the same examples leave the same state, and examples are subtracted (within what the kind's
    options allow: see `Model.subtracts`). can_re_encode_texts: it learns from text features that a
    tuned encoder can replace, and has an option `encoder`. state_is_signed: reading its state could
    run code, so the state carries a signature made with the option `key`. is_ensemble: it contains
    other models. options_can_load_code: an option names code to import or objects to build.
    """

    name: str
    path: str
    task: Task
    inputs: tuple[Input, ...] = ALL_INPUTS
    is_exact: bool = False
    can_re_encode_texts: bool = False
    state_is_signed: bool = False
    is_ensemble: bool = False
    options_can_load_code: bool = False

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
        return self.task == "ranking"

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
        return {"classification": "classes", "regression": "numbers", "ranking": "replies"}[self.task]

    def can_challenge(self, champion: "KindSpec") -> bool:
        """Whether it can learn beside `champion` as its challenger."""
        return self.task == champion.task


def _classifier(name: str, path: str, **facts: Any) -> KindSpec:
    return KindSpec(name, path, "classification", **facts)


KINDS: dict[str, KindSpec] = {
    spec.name: spec
    for spec in (
        KindSpec(
            "ranker",
            "online.models.ranker.ranker:Ranker",
            "ranking",
            inputs=("text",),
            is_exact=True,
            can_re_encode_texts=True,
        ),
        _classifier("classifier", "online.models.classifier:Classifier", is_exact=True, can_re_encode_texts=True),
        _classifier(
            "best_of",
            "online.models.ensembles.best_of:BestOf",
            state_is_signed=True,  # a member may be a river model
            is_ensemble=True,
            options_can_load_code=True,
        ),
        _classifier("knn", "online.models.neighbours.knn:Knn", is_exact=True),
        _classifier("logistic", "online.models.logistic:Logistic", inputs=("vector", "table")),
        KindSpec("regressor", "online.models.regressor:Regressor", "regression", is_exact=True),
        _classifier(
            "river",
            "online.models.river:River",
            inputs=("table",),
            state_is_signed=True,
            options_can_load_code=True,
        ),
        _classifier("tower", "online.models.tower.tower:Tower", options_can_load_code=True),
    )
}


def spec_of(kind: str) -> KindSpec:
    """Return the entry of a kind. Raises ValueError, which lists the kinds, for an unknown name."""
    if kind not in KINDS:
        raise ValueError(f"unknown model kind {kind!r}; use one of {', '.join(KINDS)}")
    return KINDS[kind]


def challenger_of(kind: str, options: Options) -> str:
    """The kind of a model's challenger, or "" if it has none. `create` refuses unknown kinds."""
    challenger = options.get("challenger")
    return str(challenger.get("kind") or kind) if isinstance(challenger, Mapping) else ""


def kinds_of(kind: str, options: Options) -> list[KindSpec]:
    """The entries of a model and of its challenger, without those of unknown names."""
    return [KINDS[name] for name in (kind, challenger_of(kind, options)) if name in KINDS]


def state_is_signed(kind: str) -> bool:
    """Whether a state of this kind is signed; False for an unknown kind, which `create` refuses."""
    return kind in KINDS and KINDS[kind].state_is_signed


def input_options(kind: str, options: Options) -> dict[str, Any]:
    """What a model reads: `input` (text, vector or table) and `size`, the length of a vector."""
    if kind in KINDS and not KINDS[kind].has_input_option:
        return {"input": KINDS[kind].inputs[0], "size": 0}
    return {"input": options.get("input", "text"), "size": int(options.get("size", 0))}


def can_tune_encoder(kind: str, options: Options) -> bool:
    """Whether a model, and its challenger if any, reads texts by an encoder that can be tuned."""
    specs = kinds_of(kind, options)
    expected = 2 if challenger_of(kind, options) else 1
    reads_texts = options.get("input", "text") == "text"
    return reads_texts and len(specs) == expected and all(spec.can_re_encode_texts for spec in specs)
