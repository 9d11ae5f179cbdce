"""A simple model that learns beside a candidate, so that a replay can tell when the candidate is far behind it.

    inputs  --BaselineModel.guess--> its choices, judged as those of the other baselines are
    entries --BaselineModel.learn

It is a `logistic` model with default options: cheap, linear, and able to follow a world that moves. It answers
and learns what the candidate answers and learns, at the same moments: every example of the first WHOLE ones (of the
first IN_BATCHES ones where the candidate learns large batches, and so is fast), and STRETCH consecutive ones of each
STRETCH * ONE_IN after that, so that it costs little on long logs.
"""

from collections.abc import Mapping, Sequence

from online.evaluation.replay.model_setup import ModelSetup
from online.learning.training_state import build_example
from online.models import BadExample, can_adapt, input_options
from online.models.logistic import Logistic
from online.schemas.events import Event
from online.scoring.baseline_lead import Lead
from online.scoring.score import LEARNED_BASELINE, MOST_FREQUENT

WHOLE, IN_BATCHES = 5_000, 1_250  # examples
LARGE_BATCH = 33
STRETCH, ONE_IN = 128, 16
MAX_NUMBERS = 50_000  # that an update touches, classes x columns^2: about 0.4 ms
TAUGHT = ("label", "reward")  # events that it learns; what is retracted it keeps

Guess = str | None
TOO_LARGE = "its rows have too many columns, or its classes are too many"
NO_TEXTS = "it reads no texts"


class BaselineModel:
    """The model that runs beside a candidate. skipped: why it does not run; "" if it does."""

    def __init__(self, setup: ModelSetup) -> None:
        self.seen = 0  # events to learn, whether it learned them or not
        self.whole = WHOLE if setup.candidate.every < LARGE_BATCH else IN_BATCHES
        self.skipped = find_reason(setup)
        reads = input_options(setup.candidate.kind, setup.options)
        self.model = None if self.skipped else Logistic({"input": reads["input"], "size": reads["size"]})

    @property
    def is_awake(self) -> bool:
        """Whether the baseline learns now: always on a short log, in parts of a long one."""
        return self.model is not None and (self.seen < self.whole or self.seen // STRETCH % ONE_IN == 0)

    def guess(self, inputs: Sequence[bytes]) -> list[dict[str, Guess]]:
        """Return the choice for each input, by the name of the baseline; nothing where it is not asked."""
        if self.model is None or not self.is_awake:
            return [{}] * len(inputs)
        return [{LEARNED_BASELINE: self.model.predict([data])[0].choice} if data else {} for data in inputs]

    def learn(self, entries: Sequence[Event]) -> None:
        """Learn the labels and rewards among entries. A model that becomes too large is given up."""
        is_awake, self.seen = self.is_awake, self.seen + len(entries)
        if self.model is None or not is_awake:
            return
        try:
            self.model.learn([build_example(entry) for entry in entries if entry.kind in TAUGHT])
        except BadExample as error:
            self.give_up(str(error))
        else:
            if self.model.covariance.size > MAX_NUMBERS:
                self.give_up(TOO_LARGE)

    def give_up(self, reason: str) -> None:
        """Stop learning the baseline, and note why."""
        self.model, self.skipped = None, reason


def find_reason(setup: ModelSetup) -> str:
    """Return why the model cannot run beside a candidate, or ""."""
    reads = input_options(setup.candidate.kind, setup.options)
    if reads["input"] == "text":
        return NO_TEXTS
    if reads["input"] == "vector" and reads["size"] ** 2 > MAX_NUMBERS:
        return TOO_LARGE
    return ""


def create_baseline(setup: ModelSetup) -> BaselineModel | None:
    """Return the model to run beside a candidate; None beside itself, and where no classes are predicted."""
    is_itself = is_learned_baseline(setup.candidate.kind, setup.options)
    predicts_classes = setup.spec.has_retirable_classes
    return BaselineModel(setup) if setup.candidate.baseline and predicts_classes and not is_itself else None


def is_learned_baseline(kind: str, options: Mapping[str, object]) -> bool:
    """Return whether a candidate is the model that would run beside it."""
    return kind == LEARNED_BASELINE and options.keys() <= {"input", "size"}


# what to do about a baseline that is far ahead


def find_remedies(setup: ModelSetup, leads: Sequence[Lead]) -> list[str]:
    """Return settings that have helped where the baseline that leads most was far ahead; none if none is.

    Measured on tables that move, and where the majority or the last number was ahead (docs/experiments.md,
    2026-11-24). For texts nothing was.
    """
    far = [lead for lead in leads if lead.is_far]
    if not far:
        return []
    if setup.spec.predicts_numbers:
        return list_for_numbers(setup)
    if input_options(setup.candidate.kind, setup.options)["input"] == "text":
        return []
    best_of = [] if setup.spec.is_ensemble else ['kind = "best_of" (--model best_of)']
    leader = max(far, key=lambda lead: lead.size).baseline
    if leader == MOST_FREQUENT:
        return best_of
    act = (
        ['drift = "act" (--drift act)']
        if can_adapt(setup.candidate.kind, setup.options) and setup.drift != "act"
        else []
    )
    follows = setup.candidate.kind == LEARNED_BASELINE and "drift" in setup.options
    logistic = ['kind = "logistic", options = { drift = 0.001 } (--model logistic:drift=0.001)']
    return (act if leader == LEARNED_BASELINE else []) + best_of + ([] if follows else logistic)


def list_for_numbers(setup: ModelSetup) -> list[str]:
    """Return what may predict better: a regressor that follows a moving world, unless it does so already."""
    if not setup.spec.is_exact:
        return ['kind = "regressor" (--model regressor)']
    return [] if setup.options.get("follow", True) else ["follow = true (--option follow=true)"]
