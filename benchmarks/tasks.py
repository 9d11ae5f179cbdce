"""What `benchmarks.heldout` measures on a set of either half: how well a kind does with some options.

    rows      prequential accuracy: each row is answered, then learned                  logistic, knn, tower, classifier
    votes     the same of best_of, over what its members answer                         best_of
    texts     accuracy after 1, 5 and 20 questions of each intent                       classifier
    thumbs    right answers of 300 turns from thumbs alone, with names and with codes   ranker
    doubt     right less 1.5 x wrong replies, also to questions that have none          ranker
    numbers   errors of predicted numbers, and of their intervals                       regressor
    changes   prequential accuracy where all classes are relabelled                     the detectors, drift = act

A score is better if it is larger. Shapes: C classes, N questions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import relabelling
from benchmarks.chat import Dataset
from benchmarks.cold_start import Scenario, Turns, play_ranker
from benchmarks.halves import INTENT_HALVES, NUMBER_HALVES, ROW_HALVES, ROWS, Halves, Intents, Set
from benchmarks.member_streams import Rows
from benchmarks.members import Alone, accuracy_of, answer_and_learn, examples_of, percent, run_alone
from benchmarks.regression import Pair
from online.models import Example, Model, create
from online.models.encoders.rows import TableEncoder
from online.models.updates import answer_by_updates
from online.plugins.ensembles.best_of import CONTENDERS

Options = Mapping[str, Any]
Scores = dict[str, float]  # by unit
POINTS, ERROR, INTERVALS = "points", "% of error", "% of interval"


@dataclass(frozen=True, slots=True)
class Task:
    """score: of one set, with a change in force; each score is better if larger."""

    name: str
    halves: Halves[Any]
    score: Callable[[Any, Options, int], Scores]


def score_rows(kind: str) -> Callable[[Rows, Options, int], Scores]:
    """Prequential accuracy in percent."""

    def score(rows: Rows, options: Options, seed: int) -> Scores:
        model = create(kind, {**rows.options, **options})
        answer_by_updates(model)
        answers, _ = answer_and_learn(model, examples_of(rows))
        return {POINTS: percent([a.choice == label for a, label in zip(answers, rows.labels, strict=True)])}

    return score


def score_votes(rows: Rows, options: Options, seed: int) -> Scores:
    """The accuracy of best_of over what its shipped members answer."""
    alone = record_members(rows)
    return {POINTS: accuracy_of(rows, alone, list(alone), **options)}


RECORDED: dict[tuple[bytes, ...], dict[str, Alone]] = {}


def record_members(rows: Rows) -> dict[str, Alone]:
    """What each member answers to each row; kept in memory, since no setting of the vote changes it."""
    key = tuple(rows.inputs)
    if key not in RECORDED:
        members = CONTENDERS[rows.options["input"]]
        RECORDED[key] = {name: run_alone(rows, own) for name, own in members.items()}
    return RECORDED[key]


TAUGHT = (1, 5, 20)  # questions of each intent


def score_few(intents: Intents, options: Options, seed: int) -> Scores:
    """The accuracy on questions that were not learned, in percent: the mean after 1, 5 and 20 questions of each intent."""
    model, dataset = create("classifier", {"input": "text", **options}), intents.dataset
    labels, offset, accuracies = np.array(dataset.train.labels), 0, list[float]()
    for start, end in pairwise((0, *TAUGHT)):
        places = [at for name in dataset.names for at in np.flatnonzero(labels == name)[start:end].tolist()]
        rows = [(dataset.train.features[at].tobytes(), dataset.train.labels[at]) for at in places]
        model.learn([Example(offset + at, "label", row, label) for at, (row, label) in enumerate(rows, 1)])
        offset += len(rows)
        accuracies.append(measure_accuracy(model, dataset))
    return {POINTS: float(np.mean(accuracies))}


def measure_accuracy(model: Model, dataset: Dataset) -> float:
    answers = model.predict([row.tobytes() for row in dataset.test.features])
    return 100 * float(np.mean([a.choice == label for a, label in zip(answers, dataset.test.labels, strict=True)]))


TURNS = 300
SCENARIOS = (
    Scenario("names", 15, 0, TURNS, 0.1),
    Scenario("5 of 15 coded", 15, 5, TURNS, 0.1),
    Scenario("all coded", 15, 15, TURNS),
)


def score_thumbs(intents: Intents, options: Options, seed: int) -> Scores:
    """Right answers in percent, from thumbs alone: the mean with names, with some codes, and with codes alone."""
    shares = list[float]()
    for scenario in SCENARIOS:
        turns = Turns.draw(intents.dataset, scenario, seed)
        hits, _ = play_ranker("optimistic", turns, scenario, seed, options)
        shares.append(100 * float(np.mean(hits)))
    return {POINTS: float(np.mean(shares))}


KNOWN, PRICE = 10, 1.5  # intents that the ranker has; of a wrong reply, where a right one gains 1
STAGES = (0, 3, 10)  # questions learned of each


def score_doubt(intents: Intents, options: Options, seed: int) -> Scores:
    """Right replies less 1.5 times the wrong ones, in percent of questions about known, other and no intents."""
    dataset, draw = intents.dataset, np.random.default_rng(seed)
    known = [list(dataset.names)[at] for at in np.sort(draw.permutation(len(dataset.names))[:KNOWN])]
    labels, model, offset, gains = np.array(dataset.train.labels), create("ranker", options), 0, list[float]()
    model.learn([Example(at, "reply", dataset.names[name], name, name) for at, name in enumerate(known, 1)])
    offset = len(known)
    questions = [(row.tobytes(), label) for row, label in zip(dataset.test.features, dataset.test.labels, strict=True)]
    questions += [(row.tobytes(), "") for row in intents.unknown]
    for start, end in pairwise((0, *STAGES)):
        places = [at for name in known for at in np.flatnonzero(labels == name)[start:end].tolist()]
        for at in places:
            offset += 1
            model.learn([Example(offset, "label", dataset.train.features[at].tobytes(), dataset.train.labels[at])])
        answers = model.predict([row for row, _ in questions])
        for answer, (_, label) in zip(answers, questions, strict=True):
            given = answer.choice is not None and not answer.abstained
            gains.append(0 if not given else 1 if answer.choice == label else -PRICE)
    return {POINTS: 100 * float(np.mean(gains))}


LEVEL = 0.9
LEAST_ERROR = 1e-9


def score_numbers(pairs: Sequence[Pair], options: Options, seed: int) -> Scores:
    """-100 times the logarithms of the mean absolute error, and of the mean interval score (Gneiting & Raftery 2007).

    A difference of 1 is an error, or a score, that is 1 % smaller. The interval score is the width, plus 20 times the
    distance of a number outside.
    """
    model, encoder = create("regressor", {"input": "table", **options}), TableEncoder()
    answer_by_updates(model)
    errors, widths = list[float](), list[float]()
    for offset, (row, number) in enumerate(pairs, 1):
        features = encoder.encode([row])[0]
        answer = model.predict([features])[0]
        if answer.choice is not None:
            errors.append(abs(float(answer.choice) - number))
        if answer.interval is not None:
            low, high = answer.interval
            widths.append(high - low + 2 / (1 - LEVEL) * max(low - number, number - high, 0.0))
        model.learn([Example(offset, "label", features, repr(number))])
    return {ERROR: to_percent(errors), INTERVALS: to_percent(widths)}


def to_percent(losses: Sequence[float]) -> float:
    return -100 * float(np.log(max(float(np.mean(losses)), LEAST_ERROR)))


BEFORE_PER_CLASS = 30  # examples; after the change there are relabelling.AFTER_PER_CLASS
CLASSES, UNSETTLED = 8, 100  # intents of a world; first examples, which are not scored


def score_changes(rows: relabelling.Rows, options: Options, seed: int) -> Scores:
    """Prequential accuracy in percent on streams that are relabelled, suddenly and over a while, with drift = act."""
    accuracies = list[float]()
    for change in ("sudden", "gradual"):
        with patch.dict(relabelling.WORLDS, {"heldout": (lambda: rows, BEFORE_PER_CLASS)}):
            made = relabelling.create_change("heldout", change, seed)
        accuracies.append(100 * float(relabelling.run("slda", "act", made).right[UNSETTLED:].mean()))
    return {POINTS: float(np.mean(accuracies))}


# changing worlds


def as_world(read: Callable[[], Intents]) -> Callable[[], relabelling.Rows]:
    """The questions of some of the intents of a set."""

    def world() -> relabelling.Rows:
        dataset = read().dataset
        names, train = list(dataset.names)[:CLASSES], dataset.train
        kept = [at for at, label in enumerate(train.labels) if label in names]
        return {"input": "text"}, [train.features[at].tobytes() for at in kept], [train.labels[at] for at in kept]

    return world


def clusters(classes: int, width: int) -> Callable[[], relabelling.Rows]:
    return partial(relabelling.draw_clusters, classes, width, ROWS)


def take(halves: Halves[Set], name: str, count: int) -> dict[str, Callable[[], Set]]:
    """The first sets of a half."""
    return dict(list(getattr(halves, name).sets.items())[:count])


CHANGE_HALVES: Halves[relabelling.Rows] = Halves.of(
    {
        **{name: as_world(read) for name, read in take(INTENT_HALVES, "tune", 2).items()},
        "clusters of 8": clusters(8, 16),
        "clusters of 12": clusters(12, 10),
        "digits": relabelling.read_digits,
    },
    {
        **{name: as_world(read) for name, read in take(INTENT_HALVES, "judge", 2).items()},
        "clusters of 6": clusters(6, 12),
        "clusters of 10": clusters(10, 24),
        "clusters of 16": clusters(16, 20),
    },
)

LINE = Task("logistic", ROW_HALVES, score_rows("logistic"))
NEAR = Task("knn", ROW_HALVES, score_rows("knn"))
TABLES = Task("classifier on rows", ROW_HALVES, score_rows("classifier"))
TOWER = Task("tower", ROW_HALVES, score_rows("tower"))
VOTES = Task("best_of", ROW_HALVES, score_votes)
FEW = Task("classifier on texts", INTENT_HALVES, score_few)
THUMBS = Task("ranker, thumbs", INTENT_HALVES, score_thumbs)
DOUBT = Task("ranker, no reply", INTENT_HALVES, score_doubt)
NUMBERS = Task("regressor", NUMBER_HALVES, score_numbers)
CHANGES = Task("drift", CHANGE_HALVES, score_changes)
