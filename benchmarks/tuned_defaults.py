"""The defaults that were chosen by data and that `benchmarks.heldout` tries other values of.

    Setting: an option of a kind, or a constant of a module, and a grid --> Change: options and constants in force

The shipped value is read from the code, and belongs to the grid.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.changes import Change, Constant
from benchmarks.tasks import (
    CHANGES,
    DOUBT,
    ERROR,
    FEW,
    INTERVALS,
    LINE,
    NEAR,
    NUMBERS,
    POINTS,
    TABLES,
    THUMBS,
    TOWER,
    VOTES,
    Options,
    Task,
)
from online.models.registry import describe_options


class Target(Protocol):
    """What a setting changes."""

    @property
    def shipped(self) -> Any: ...
    def change(self, value: Any) -> Change: ...


@dataclass(frozen=True, slots=True)
class OptionOf:
    """An option of a kind."""

    kind: str
    option: str

    @property
    def shipped(self) -> Any:
        return next(each.default for each in describe_options(self.kind) if each.name == self.option)

    def change(self, value: Any) -> Change:
        return Change({self.option: value})


@dataclass(frozen=True, slots=True)
class Scaled:
    """A factor by which a constant of several numbers is changed."""

    constant: Constant
    scale: Callable[[Any, float], Any]
    shipped: float = 1.0

    def change(self, value: float) -> Change:
        return self.constant.change(self.scale(self.constant.shipped, value))


@dataclass(frozen=True, slots=True)
class Setting:
    """values: the grid beside the shipped value. measure: which of the task's scores decides, and its unit."""

    name: str
    target: Target
    values: tuple[Any, ...]
    task: Task
    measure: str = POINTS
    base: Options = field(default_factory=dict)  # options in force with every value

    @property
    def grid(self) -> list[Any]:
        return sorted({self.target.shipped, *self.values})

    def change(self, value: Any) -> Change:
        """The shipped value changes nothing, so that all settings of a task share its scores."""
        own = Change() if value == self.target.shipped else self.target.change(value)
        return Change({**self.base, **own.options}, own.constants)


def scale_memories(memories: Any, factor: float) -> Any:
    """Members' memories in the vote: `factor` times as long."""
    return tuple(memory._replace(fading=1 - (1 - memory.fading) / factor) for memory in memories)


def scale_eagerness(memories: Any, factor: float) -> Any:
    return tuple(memory._replace(eagerness=factor * memory.eagerness) for memory in memories)


def scale_values(table: Any, factor: float) -> Any:
    return {name: factor * value for name, value in table.items()}


def scale_lengths(memories: Any, factor: float) -> Any:
    """The regressor's memories: `factor` times as long."""
    return tuple(memory._replace(length=round(factor * memory.length)) for memory in memories)


def scale_strengths(memories: Any, factor: float) -> Any:
    return tuple(memory._replace(strength=factor * memory.strength) for memory in memories)


def shift_octave(pair: Any, octaves: float) -> Any:
    return pair[0] + octaves, pair[1]


def constant(module: str, name: str) -> Constant:
    return Constant(f"online.{module}", name)


CURVE: Options = {"waves": 64, "drift": 1e-5}  # of a member of best_of
RANDOM: Options = {"head": "rp_ridge"}
MEMORIES = constant("plugins.ensembles.votes", "MEMORIES")
LENGTHS = constant("plugins.regression.tracking.tracker", "MEMORIES")  # where it is read
OCTAVE = constant("models.classifier", "TEXT_OCTAVE")
SETTINGS: tuple[Setting, ...] = (
    Setting("logistic: drift", OptionOf("logistic", "drift"), (0.0, 1e-5, 1e-4, 1e-3), LINE),
    Setting("logistic: prior", OptionOf("logistic", "prior"), (0.1, 0.3, 3.0, 10.0), LINE),
    Setting(
        "logistic: frequency of waves", OptionOf("logistic", "frequency"), (0.1, 0.2, 0.6, 1.0, 2.0), LINE, base=CURVE
    ),
    Setting("logistic: amplitude of waves", constant("models.logistic", "AMPLITUDE"), (2.0, 8.0), LINE, base=CURVE),
    Setting("knn: neighbours", OptionOf("knn", "neighbours"), (3, 5, 20, 40), NEAR),
    Setting("tower: rate", OptionOf("tower", "rate"), (0.001, 0.01), TOWER),
    Setting("classifier: shrinkage, rows", OptionOf("classifier", "shrinkage"), (0.05, 0.2, 2.0, 5.0), TABLES),
    Setting("classifier: shrinkage, texts", OptionOf("classifier", "shrinkage"), (0.1, 0.2, 1.0, 2.5, 5.0), FEW),
    Setting("classifier: least variance", constant("models.statistics.discriminant", "FLOOR_RATIO"), (0.3, 1.0), FEW),
    Setting("classifier: rows that fix scales", constant("models.inputs", "WARM_UP"), (50, 400), TABLES),
    Setting("rp_ridge: random_features", OptionOf("classifier", "random_features"), (256, 2_048), FEW, base=RANDOM),
    Setting("rp_ridge: octave of texts", Scaled(OCTAVE, shift_octave, 0.0), (-1.0, 1.0), FEW, base=RANDOM),
    Setting("best_of: length of memories", Scaled(MEMORIES, scale_memories), (0.5, 2.0), VOTES),
    Setting("best_of: eagerness", Scaled(MEMORIES, scale_eagerness), (0.5, 2.0), VOTES),
    Setting(
        "best_of: memory of the choice", constant("plugins.ensembles.votes", "CHOICE_FADING"), (0.99, 0.9997), VOTES
    ),
    Setting(
        "best_of: handicaps",
        Scaled(constant("plugins.ensembles.best_of", "HANDICAPS"), scale_values),
        (0.0, 2.0),
        VOTES,
    ),
    Setting("best_of: patience", OptionOf("best_of", "patience"), (100, 10_000), VOTES),
    Setting("ranker: optimism", OptionOf("ranker", "optimism"), (0.0, 0.75, 3.0), THUMBS),
    Setting("ranker: explore_share", OptionOf("ranker", "explore_share"), (0.5, 1.0), THUMBS),
    Setting("ranker: explore_floor", OptionOf("ranker", "explore_floor"), (0.25, 0.75), THUMBS),
    Setting("ranker: belief that is a guess", constant("models.ranker.exploration", "UNKNOWN"), (0.3, 0.7), THUMBS),
    Setting("ranker: weight of a chance", constant("models.ranker.exploration", "CHANCE_WEIGHT"), (0.1, 1.0), THUMBS),
    Setting("ranker: shrinkage", OptionOf("ranker", "shrinkage"), (1.0, 5.0), THUMBS),
    Setting("ranker: ratings near", constant("models.ranker.exploration", "NEAR_WEIGHT"), (0.1, 1.0), THUMBS),
    Setting("ranker: evidence to stop", constant("models.ranker.exploration", "BACKED"), (0.15, 0.6), THUMBS),
    Setting("ranker: a thumb up alone", constant("models.ranker.exploration", "ALONE"), (0.1, 1.0), THUMBS),
    Setting("ranker: gain of evidence", constant("models.ranker.choice", "EVIDENCE_GAIN"), (30.0, 300.0), THUMBS),
    Setting("ranker: gain of standing", constant("models.ranker.choice", "THUMBS_GAIN"), (0.0, 80.0), THUMBS),
    Setting("ranker: scale of scores", constant("models.ranker.likeness", "SOFTMAX_SCALE"), (30.0, 60.0), THUMBS),
    Setting(
        "ranker: replies that share the chance", constant("models.ranker.exploration", "COMPARED"), (3, 10), THUMBS
    ),
    Setting("ranker: damping of evidence", constant("models.ranker.exemplars", "EVIDENCE_DAMPING"), (0.1, 1.0), THUMBS),
    Setting("ranker: scale of leads", constant("models.ranker.likeness", "LEAD_SCALE"), (20.0, 80.0), DOUBT),
    Setting("ranker: bias of the chance", constant("models.ranker.likeness", "BIAS"), (-4.6, -3.0), DOUBT),
    Setting("ranker: min_chance", OptionOf("ranker", "min_chance"), (0.4, 0.5, 0.7, 0.8), DOUBT),
    Setting("ranker: abstain_below", OptionOf("ranker", "abstain_below"), (0.3, 0.45), DOUBT),
    Setting("ranker: abstain_margin", OptionOf("ranker", "abstain_margin"), (0.0, 2.0, 8.0), DOUBT),
    Setting(
        "regressor: share spread",
        constant("plugins.regression.tracking.tracker", "SHARE"),
        (0.001, 0.01),
        NUMBERS,
        ERROR,
    ),
    Setting(
        "regressor: prior of standing still",
        constant("plugins.regression.tracking.tracker", "PRIOR"),
        (0.1, 0.9),
        NUMBERS,
        ERROR,
    ),
    Setting(
        "regressor: freedom", constant("plugins.regression.tracking.tracker", "FREEDOM"), (2.0, 8.0), NUMBERS, ERROR
    ),
    Setting(
        "regressor: errors that decide",
        constant("plugins.regression.tracking.tracker", "SPREAD_LENGTH"),
        (20.0, 150.0),
        NUMBERS,
        ERROR,
    ),
    Setting("regressor: length of memories", Scaled(LENGTHS, scale_lengths), (0.5, 2.0), NUMBERS, ERROR),
    Setting("regressor: strength of priors", Scaled(LENGTHS, scale_strengths), (0.3, 3.0), NUMBERS, ERROR),
    Setting(
        "intervals: newest scores",
        constant("plugins.regression.tracking.reach", "WINDOW"),
        (50, 200),
        NUMBERS,
        INTERVALS,
    ),
    Setting(
        "intervals: step", constant("plugins.regression.tracking.reach", "STEP"), (0.003, 0.03), NUMBERS, INTERVALS
    ),
    Setting("drift: ADWIN of all", constant("learning.drift", "DELTA"), (0.0002, 0.02), CHANGES),
    Setting("drift: ADWIN of a class", constant("learning.drift", "CLASS_DELTA"), (0.0005, 0.01), CHANGES),
    Setting("drift: limit of CUSUM", constant("learning.detectors", "Cusum.LIMIT"), (10_000, 24_000), CHANGES),
    Setting("drift: jump of CUSUM", constant("learning.detectors", "Cusum.JUMP"), (0.4, 0.8), CHANGES),
    Setting("drift: lead", constant("models.statistics.adaptation", "LEAD"), (3.0, 8.0), CHANGES),
)
