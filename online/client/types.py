"""The JSON objects that a service returns, and the details that feedback may carry."""

from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

Json = dict[str, Any]


class FeedbackDetails(TypedDict):
    """Optional parts of feedback. id: an idempotency key; the client makes one if it is missing.

    scope: of a correction. reply: it supersedes the reply that was given, for questions like this one. question: it
    changes near-duplicates of this question only.
    """

    id: NotRequired[str]
    scope: NotRequired[Literal["reply", "question"]]
    user: NotRequired[str]
    reason: NotRequired[str]
    comment: NotRequired[str]


class ReplyRef(TypedDict):
    """A reply: its id and its text."""

    id: str
    text: str


class RankedReply(ReplyRef):
    """A reply with its score."""

    score: float


class Prediction(TypedDict):
    """The answer to one instance.

    A ranker returns reply to abstained, a classifier label and probabilities, a regressor value,
    low and high.
    """

    reply: NotRequired[ReplyRef | None]
    score: NotRequired[float]
    propensity: NotRequired[float]
    candidates: NotRequired[list[RankedReply]]
    abstained: NotRequired[bool]
    label: NotRequired[str | None]
    probabilities: NotRequired[dict[str, float]]
    value: NotRequired[float | None]
    low: NotRequired[float | None]
    high: NotRequired[float | None]


class PredictResponse(TypedDict):
    """Predictions in the order of the instances, each with the id and the URL for its feedback."""

    predictions: list[Prediction]
    prediction_ids: list[str]
    feedback_urls: list[str]
    model_version: str
    learned_until: int


class Receipt(TypedDict):
    """Feedback that is stored. A version has learned it when its learned_until reaches offset."""

    id: str
    offset: int
    status: str


class FeedbackStatus(Receipt):
    """The outcome of feedback: accepted, learned, refused, retracted or quarantined."""

    version: NotRequired[str]
    reason: NotRequired[str]
    freshness_ms: NotRequired[float]


class ErasureResult(TypedDict):
    """The numbers of feedback items and predictions of a user that were erased at once.

    id: of the erasure, which goes on. offset: of the last retraction.
    """

    id: str
    feedback: int
    predictions: int
    offset: int


class ErasureStatus(TypedDict):
    """The state of an erasure. statement: signed; None until it is done."""

    id: str
    state: str
    created_at: str
    ended_at: str | None
    step: str
    models: dict[str, str]
    statement: Json | None


class ModelStatus(TypedDict):
    """The model that is served.

    head: last offset of the log. encoder, adaptation: only for text models.
    """

    name: str
    kind: str
    model_version_status: list[Json]
    learned_until: int
    head: int
    weights_sha256: str
    encoder: NotRequired[str]
    adaptation: NotRequired[Json | None]


class VersionInfo(TypedDict):
    """One kept version. created_at: ISO 8601, UTC."""

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


class ExportedFile(NamedTuple):
    """A file of a version, or a delta that leads to it."""

    data: bytes
    version: str


class RollbackResult(TypedDict):
    """The version that is live after a roll back."""

    version: str
    learned_until: int


class ReplyInfo(ReplyRef):
    """A reply of the repertoire. active: false once it is retired."""

    active: bool
    offset: int


class ClassInfo(TypedDict):
    """A class that feedback has named, under the key `label`.

    active: false once it is retired, or where the model could learn nothing of it. refusal: why it could not.
    """

    label: str
    active: bool
    offset: int
    refusal: str | None
