"""What crosses a wire or the stream. Requests and answers are pydantic models, so the OpenAPI document shows them."""

import json
import math
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

EventKind = Literal["label", "reward", "correction", "reply", "retire", "restore", "retraction"]
Fate = Literal["accepted", "learned", "refused", "retracted", "quarantined"]


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


# models


class ModelCard(Wire):
    id: str
    object: Literal["model"]
    created: int = Field(description="when its live version was made, in s since 1970; 0: there is none yet")
    owned_by: str
    kind: str
    input: Literal["text", "vector", "table"] = Field(description="what an instance is")
    size: int = Field(description="of a vector: how many numbers; 0: any, or none")


class ModelsAnswer(Wire):
    object: Literal["list"]
    data: list[ModelCard]
    models: list[str]


# predict


class PredictRequest(Wire):
    """`instances` holds texts, lists of numbers or objects of features, as the model takes them."""

    instances: list[Any] = Field(min_length=1)
    min_offset: int | None = Field(None, ge=0, description="answer only with a version that has learned this offset")
    timeout_ms: int = Field(2_000, ge=0, le=60_000, description="how long min_offset may wait, in ms")
    user: Name | None = None
    record: bool = Field(True, description="false: a dry run that leaves no row and takes no feedback")
    conversation: Name | None = Field(None, description="keep it there, for this user to come back to")
    besides: list[Name] = Field(
        default_factory=list, max_length=100, description="answers not to give: asks for another"
    )


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
    feedback_urls: list[str] = Field(
        default_factory=list, description="one a prediction: whoever has it may say what they think of that one"
    )
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


class LinkedFeedback(Wire):
    """What somebody thought of the prediction of a feedback_url: exactly one of reward, label and correction."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reward: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    label: Label | None = None
    correction: Text | None = None
    reason: str | None = Field(None, max_length=200)
    comment: str | None = Field(None, max_length=2_000)


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


# conversations


class ConversationShown(Wire):
    id: str
    title: str = Field(description="its first question")
    created_at: str
    updated_at: str
    turns: int


class ConversationsAnswer(Wire):
    conversations: list[ConversationShown] = Field(description="the newest first")


class SaidAbout(Wire):
    """One feedback about a turn that stands."""

    id: str
    status: Fate
    version: str | None = None
    reward: float | None = None
    label: str | None = None
    correction: str | None = None
    reason: str | None = None
    comment: str | None = None


class TurnShown(Wire):
    prediction_id: str
    question: str | None = Field(description="null where it was erased")
    reply: ReplyRef | None
    candidates: list[RankedReply]
    besides: list[str] = Field(description="replies that were not wanted")
    model_version: str
    created_at: str
    feedback: list[SaidAbout]


class ConversationAnswer(ConversationShown):
    said: list[TurnShown] = Field(description="in the order in which it was said")


class Forgotten(Wire):
    id: str
    turns: int


# why


class Ground(Wire):
    """How a reply came to its score for one question; the three parts add up to it, in score units."""

    id: str
    text: str
    score: float
    sums: float = Field(description="of what the questions it was right for have in common")
    evidence: float = Field(description="of rated questions nearby")
    standing: float = Field(description="of its thumbs, whatever was asked")


class Witness(Wire):
    """A question nearby that was rated, or an example."""

    question: str | None = Field(description="null where it was erased")
    reply: ReplyRef
    likeness: float = Field(description="cosine of the two questions")
    reward: float = Field(description="-1 to 1")
    said: Literal["correction", "thumb", "example"]
    feedback_id: str | None
    offset: int


class WhyAnswer(Wire):
    model_version: str = Field(description="the version that explains: the live one")
    answered_by: str = Field(description="the version that answered")
    settled: str | None = Field(description="the reply that the last word on this very question asks for")
    grounds: list[Ground] = Field(description="the reply that was given, then the best of the others")
    witnesses: list[Witness] = Field(description="the nearest first")


# chat, as OpenAI's clients send it; what they send besides is not looked at


class ChatPart(Wire):
    type: str
    text: Text | None = None


class ChatMessage(Wire):
    role: str
    content: Text | list[ChatPart] | None = None

    def text(self) -> str:
        """Its words, without pictures and the like."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or [] if part.type == "text" and part.text)


class StreamOptions(Wire):
    include_usage: bool = False


class ChatUser(Wire):
    """A user as Open WebUI's pipelines are told of one."""

    id: Name


class ChatRequest(Wire):
    """The last message of the user is the question; what was said before it is not looked at."""

    model: str = Field(description="the name of a ranker")
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = 1
    user: Name | ChatUser | None = None
    metadata: dict[str, Any] | None = Field(None, description="of this only `task` is looked at: no question then")


class ChatReply(Wire):
    role: Literal["assistant"]
    content: str


class ChatChoice(Wire):
    index: int
    message: ChatReply
    finish_reason: Literal["stop"]


class ChatUsage(Wire):
    """In words, by which a model that chooses among whole replies does not reckon."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatAnswer(Wire):
    id: str = Field(description="the prediction_id that feedback refers to; of a task, which takes none, a name alone")
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str = Field(description="the version that answered")
    choices: list[ChatChoice]
    usage: ChatUsage
    feedback_url: str | None = Field(None, description="whoever has it may say what they think of this answer")


class ChatErrorText(Wire):
    message: str
    type: str
    param: str | None
    code: str | None


class ChatError(Wire):
    """How OpenAI's clients read an error."""

    error: ChatErrorText


# feedback that other pages send


class OutsideSubject(Wire):
    id: str | int | None = None


class OutsideEvent(Wire):
    """An event as Open WebUI's webhooks send it; the rest of it is not looked at."""

    event: str
    subject: OutsideSubject | None = None


class Score(Wire):
    """A score as Langfuse takes it, as far as LibreChat sends it; the rest is not looked at."""

    id: Name | None = None
    traceId: Name
    name: str
    value: float | bool | None = Field(None, description="1 for a thumb up, 0 for one down, null for none")
    comment: str | None = None
    metadata: dict[str, Any] | None = None


class OutsideAnswer(Wire):
    """What became of it here. waiting: it will be looked up again. ignored: it is about nothing that was answered here."""

    id: str
    status: Literal["accepted", "retracted", "ignored", "waiting"]


# replies


class NewReply(Wire):
    text: Text
    examples: list[Text] = Field(default_factory=list, max_length=100)
    id: Id | None = None


class EditReply(Wire):
    """What is to be another; whatever is not there stays as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: Text | None = Field(None, description="its new wording; the id and all that was learned about it stay")
    examples: list[Text] = Field(default_factory=list, max_length=100, description="questions to add")
    active: bool | None = Field(None, description="whether it is given: false retires it, true restores it")


class ReplyLine(Wire):
    """A reply in a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Id | None = None
    text: Text
    examples: list[Text] = Field(default_factory=list, max_length=1_000)
    active: bool = True


class ReplyShown(ReplyRef):
    active: bool
    offset: int


class ReplyListed(ReplyShown):
    examples: int = Field(description="questions that were added with it")
    rated: int = Field(description="outcomes that said something about it where it was given")
    right: int


class ExampleShown(Wire):
    text: str
    offset: int


class TaughtShown(Wire):
    """What somebody said about a reply: that it is right for a question, or (`right` false) that it is not."""

    question: str
    feedback_id: str
    offset: int
    right: bool


class ReplyDetails(ReplyShown):
    examples: list[ExampleShown]
    taught: list[TaughtShown] = Field(description="the newest feedback about it, newest first")


class ImportedLine(Wire):
    """does: what it changes; nothing where it is empty. was: the wording that it replaces."""

    line: int
    id: str
    text: str
    does: list[Literal["new", "reworded", "examples", "restored", "retired"]]
    examples: int = Field(description="how many it adds")
    was: str | None
    error: str | None


class ImportAnswer(Wire):
    lines: list[ImportedLine]
    bad: int = Field(description="lines that cannot be meant")
    offset: int | None = Field(description="from which on all of it is learned; null: nothing was changed")


class OpenQuestion(Wire):
    text: str
    predictions: list[str] = Field(description="ids of those that asked so, the newest first")
    asked_at: str


class OpenCluster(Wire):
    """Questions that mean much the same."""

    asked: int
    questions: list[OpenQuestion]


class UnansweredAnswer(Wire):
    clusters: list[OpenCluster]


class RepliesAnswer(Wire):
    replies: list[ReplyListed]


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
    labels: list[str] = Field(description="its names: latest (the live one), previous, and those it was given")
    state: Literal["START", "LOADING", "AVAILABLE", "END"] = Field(description="whether it can be asked for")


class VersionLabel(Wire):
    label: str
    version: str
    percent: float = Field(description="of the canary: the share of the traffic that it answers")


class FrozenShown(Wire):
    since: str
    reason: str


class RefusedCandidate(Wire):
    """What the gate did not let go live, and went on refusing: times in all, the last one having learned `until`."""

    learned_until: int = Field(description="what the first of them had learned")
    until: int
    times: int
    reason: str
    created_at: str


class VersionsAnswer(Wire):
    versions: list[VersionShown]
    refused: list[RefusedCandidate] = Field(description="candidates that the gate refused, newest first")
    labels: list[VersionLabel]
    frozen: FrozenShown | None = Field(
        description="since when nothing is learned, and why; null where the model learns"
    )


class ShadowAnswer(Wire):
    """How the version with the label shadow would have done, beside what was answered."""

    version: str | None = Field(description="null: no version has the label")
    answered: int
    judged: int = Field(description="with feedback that says what was right")
    shadow_right: int
    live_right: int


class RollbackRequest(Wire):
    version: str | int = Field("previous", description="a number or a label")


class LabelRequest(Wire):
    version: str | int = Field(description="a number or another label")
    percent: float = Field(0, ge=0, le=100, description="of the canary: the share of the traffic that it answers")


class FreezeRequest(Wire):
    reason: str = Field("", max_length=500)


class QuarantineShown(Wire):
    """What the guard set apart: the feedback since an offset, until somebody says what it is worth."""

    offset: int = Field(description="of the feedback that showed it")
    since: int
    until: int | None
    reason: str
    rolled_back_to: int | None = Field(description="the version that answers since; null: there was none to go back to")
    created_at: str
    ended_at: str | None
    outcome: Literal["learned", "dropped"] | None


class QuarantinesAnswer(Wire):
    quarantines: list[QuarantineShown]


class EndQuarantine(Wire):
    outcome: Literal["learned", "dropped"]


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


class RefusedShown(Wire):
    """An event that the model could not learn; it was set aside, and learning went on."""

    offset: int
    id: str
    kind: EventKind
    label: str = Field(description="what it said was right, or was answered")
    reason: str
    created_at: str | None


class RefusedAnswer(Wire):
    refused: list[RefusedShown]


class Tally(Wire):
    judged: int = Field(description="how many outcomes said something about its answers")
    total: float = Field(description="how many of those were right; of numbers, the sum of their absolute errors")


class CurvePoint(Wire):
    """Outcomes up to number `until`, after those of the point before it. counts, sums: by who answered."""

    until: int
    offset: int = Field(description="of the feedback that was the last of them")
    began: str | None
    ended: str | None
    counts: dict[str, int]
    sums: dict[str, float]


class CurveAnswer(Wire):
    """How often what was served was right, beside baselines that knew what the model knew: `no_change`, the last label
    again, and `majority`, the most frequent so far (of numbers `mean`). Each outcome is counted when it comes, also where it
    is taken back later: so a replay of the log counts the same.
    """

    measure: Literal["right", "error"]
    counted_until: int = Field(description="the offset up to which all is counted; below `head` where that takes long")
    head: int
    rated: int = Field(description="feedback about predictions that had answered something")
    right: int
    feedback: int = Field(description="all of it")
    feedback_per_minute: float = Field(description="within the last minute")
    tallies: dict[str, Tally]
    points: list[CurvePoint]


class Progress(Wire):
    what: str = Field(description="what is being done")
    percent: int = Field(description="how much of it is done")


class ReportState(Wire):
    """The newest report of a model's own log, and the one that is being made, if one is."""

    until: int | None = Field(description="the offset up to which it tells; null: there is none yet")
    made_at: str | None
    head: int = Field(description="the newest offset of the log")
    making: Progress | None
    failed: str | None = Field(description="why the last attempt failed, until the next one")


class ReplayAsked(Wire):
    """A log that was sent, and on what it is to be replayed. file: what it is called in its folder, which is ours to say."""

    name: str
    file: str
    models: list[str]
    label: str
    format: str
    max_bad_ratio: float
    size_bytes: int
    created_at: str


class ReplayShown(Wire):
    id: str
    name: str = Field(description="what its sender calls the log")
    size_bytes: int
    created_at: str
    models: list[str] = Field(description="on what it is replayed; empty until it is known which fit")
    state: Literal["waiting", "running", "done", "failed"]
    progress: Progress | None = Field(description="of one that waits or runs")
    error: str | None = Field(description="why it failed")


class ReplaysAnswer(Wire):
    replays: list[ReplayShown]
    kinds: list[str] = Field(description="the kinds of models that a log can be replayed on")
    max_bytes: int = Field(description="the largest log that is taken")


# batch prediction jobs


class BatchPredictRequest(Wire):
    """A file of instances to be answered, and a folder for the results; both lie under one of the setting job_folders."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: str = Field(min_length=1, max_length=4_096, description="JSONL, CSV or Parquet, plain or .gz or .zst")
    output: str = Field(min_length=1, max_length=4_096, description="a folder that is new or empty, or this job's own")
    version: int | Annotated[str, StringConstraints(min_length=1, max_length=64)] = Field(
        "latest", description="a number or a label; the whole job is answered by what that is when it begins"
    )
    key: str = Field("", max_length=200, description="field that is told with each prediction, instead of the instance")
    format: Literal["", "jsonl", "csv", "parquet"] = Field("", description="default: as the input is named, or JSONL")
    shards: int = Field(4, ge=1, le=100, description="files of results")
    max_bad_ratio: float = Field(0.5, ge=0, le=1, description="the share of rows that may fail before the job does")


class JobShown(BatchPredictRequest):
    id: str
    model: str
    created_at: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    model_version: str | None = Field(None, description="the version that answers; null before it has begun")
    rows: int = Field(0, description="in the input; 0 before it has begun")
    done: int = Field(0, description="of these, that are done: results and errors")
    results: int = 0
    errors: int = 0
    error: str | None = Field(None, description="why it failed")


class JobsAnswer(Wire):
    jobs: list[JobShown]


class Dropped(Wire):
    id: str


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
