"""What crosses a wire or the stream. Requests and answers are pydantic models, so the OpenAPI document shows them."""

import json
import math
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

EventKind = Literal["label", "reward", "correction", "reply", "retire", "restore", "retraction"]
Fate = Literal["accepted", "learned", "refused", "retracted"]


def usable_in_a_path(id: str) -> str:
    if id in (".", ".."):
        raise ValueError("'.' and '..' are no ids")
    return id


# no '#', which marks the ids of events that feedback brings with it, and no '/', which would end it in a path
ID = r"^[^#/\x00-\x1f\x7f]+$"
Id = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=ID), AfterValidator(usable_in_a_path)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]  # Postgres stores no NUL


def number_as_text(label: Any) -> Any:
    """12.5 -> "12.5": a label travels as text, whatever it stands for. Raises ValueError for what is no number."""
    if isinstance(label, float) and not math.isfinite(label):
        raise ValueError(f"a label that is a number must be finite, not {label}")
    return repr(label) if type(label) in (int, float) else label


Label = Annotated[Text, BeforeValidator(number_as_text, json_schema_input_type=Text | float)]


class Wire(BaseModel):
    model_config = ConfigDict(frozen=True)


# predict


class PredictRequest(Wire):
    """`instances` holds texts, lists of numbers or objects of features, as the model takes them."""

    instances: list[Any] = Field(min_length=1)
    min_offset: int | None = Field(None, ge=0, description="answer only with a version that has learned this offset")
    timeout_ms: int = Field(2_000, ge=0, le=60_000, description="how long min_offset may wait, in ms")
    user: Name | None = None
    record: bool = Field(True, description="false: a dry run that leaves no row and takes no feedback")


class ReplyRef(Wire):
    id: str
    text: str


class RankedReply(ReplyRef):
    score: float


class RankerPrediction(Wire):
    reply: ReplyRef | None
    score: float
    propensity: float
    candidates: list[RankedReply]
    abstained: bool


class ClassifierPrediction(Wire):
    label: str | None
    probabilities: dict[str, float]


class RegressorPrediction(Wire):
    """value lies within low..high as often as the model's option `level` says; null before it has seen enough."""

    value: float | None
    low: float | None
    high: float | None


class PredictAnswer(Wire):
    predictions: list[RankerPrediction | ClassifierPrediction | RegressorPrediction]
    prediction_ids: list[str]
    model_version: str
    learned_until: int


# feedback


class FeedbackItem(Wire):
    """What somebody thought: exactly one of reward, label and correction, about a prediction or about an input."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Id | None = Field(None, description="your idempotency key; the same id again has no second effect")
    prediction_id: Name | None = None
    input: Any = Field(None, description="instead of a prediction_id")
    reward: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    label: Label | None = Field(None, description="the right label, reply id or number")
    correction: Text | None = Field(
        None, description="the text of the reply it should have given; new text is a new reply"
    )
    user: Name | None = None
    reason: str | None = Field(None, max_length=200)
    comment: str | None = Field(None, max_length=2_000)


class FeedbackRequest(Wire):
    feedback: list[FeedbackItem] = Field(min_length=1)


class Receipt(Wire):
    id: str
    offset: int
    status: Fate


class FeedbackAnswer(Wire):
    receipts: list[Receipt]


class FeedbackFate(Receipt):
    version: str | None = None
    reason: str | None = None
    freshness_ms: float | None = None


class Erased(Wire):
    """What was blanked: how many feedbacks and predictions of the user."""

    feedback: int
    predictions: int
    offset: int = Field(description="of the last retraction: learned until here, nothing is left of them; 0: none")


# replies


class NewReply(Wire):
    text: Text
    examples: list[Text] = Field(default_factory=list, max_length=100)
    id: Id | None = None


class ReplyShown(ReplyRef):
    active: bool
    offset: int


class RepliesAnswer(Wire):
    replies: list[ReplyShown]


# labels


class LabelShown(Wire):
    label: str
    active: bool = Field(description="false: it was retired, and is given no more until it is restored")
    offset: int = Field(description="of when it was last retired or restored, or else came first")


class LabelsAnswer(Wire):
    labels: list[LabelShown]


# versions


class VersionShown(Wire):
    version: str
    parent: str | None
    learned_until: int
    created_at: str
    state_sha256: str
    weights_sha256: str
    feature_epoch: str
    durable: bool
    metrics: dict[str, float]
    live: bool


class VersionsAnswer(Wire):
    versions: list[VersionShown]


class RollbackRequest(Wire):
    version: str | int


class RollbackAnswer(Wire):
    version: str
    learned_until: int


class DriftShown(Wire):
    """What changed (the loss, a label's loss, the features), where, since about when, and by how much."""

    offset: int = Field(description="of the feedback that showed it")
    what: Literal["loss", "class", "features"]
    label: str | None
    projection: int | None = Field(description="of features: the direction that moved most")
    since: int = Field(description="about the offset where it began")
    before: float = Field(description="mean loss before; of features, their mean on the direction")
    after: float
    size: float = Field(description="after - before; of features, the Kolmogorov-Smirnov distance")
    window: int = Field(description="in how many entries it shows")
    noted_at: str


class DriftAnswer(Wire):
    drift: list[DriftShown]


class LearnerState(Wire):
    state: Literal["running", "restarting", "stopped", "external"]
    reason: str | None = None


class ErrorAnswer(Wire):
    error: str


# the stream


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a model, self-contained: a learner needs nothing but these.

    id: the feedback's id, or one derived from it. label: the right label, the reply's id, or what was answered; of a
    retirement and of a restoring, whose it is.
    text: a new reply's, or an example question's own. choice: what the prediction had chosen, for prequential scores. target: for a retraction, the event it takes back,
    carried whole.
    """

    id: str
    kind: EventKind
    features: bytes = b""
    label: str = ""
    text: str = ""
    reward: float = 1.0
    choice: str | None = None
    target: "Target | None" = None

    def body(self) -> str:
        """Everything but the features, as JSON."""
        fields = asdict(self)
        del fields["features"]
        if self.target is not None:
            fields["target"]["event"] = self.target.event.body()
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def parse(cls, body: str, features: bytes) -> "Event":
        fields = json.loads(body)
        target = fields.pop("target")
        if target is not None:
            target = Target(target["offset"], cls.parse(target["event"], features))
        return cls(features=features, target=target, **fields)


@dataclass(frozen=True, slots=True)
class Target:
    offset: int
    event: Event


@dataclass(frozen=True, slots=True)
class Entry:
    """An event at its place in the stream."""

    offset: int
    event: Event
