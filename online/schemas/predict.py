"""The request and the answer of predict, in the native shape."""

from typing import Annotated

from pydantic import AliasChoices, Field, StringConstraints

from online.schemas.fields import Name, NativeRequest, Wire
from online.schemas.json_values import JSONArray

TurnId = Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f\x7f]*$")]


class PredictRequest(NativeRequest):
    """`instances` are texts, lists of numbers or objects of features, as the model takes them."""

    instances: JSONArray = Field(min_length=1)
    min_offset: int | None = Field(
        None, ge=0, description="Predict with a version that has learned this offset; wait for one if necessary."
    )
    timeout_ms: int = Field(2_000, ge=0, le=60_000, description="How long `min_offset` may wait, in ms.")
    user: Name | None = Field(None, description="The user on whose behalf the request is made.")
    record: bool = Field(True, description="False: the predictions are not recorded and accept no feedback.")
    feedback_urls: bool = Field(
        False, description="Return a signed URL for each prediction; its holder may rate the prediction."
    )
    conversation: Name | None = Field(
        None, description="Keep the question and its reply in this conversation of the user."
    )
    after: TurnId | None = Field(
        None,
        description="The prediction_id of the turn of the conversation that the question follows; empty: it begins the "
        "conversation. Default: the newest turn.",
    )
    exclude: list[Name] = Field(
        default_factory=list,
        max_length=100,
        validation_alias=AliasChoices("exclude", "besides"),
        description="Replies or classes that must not be given. The former name `besides` is accepted too.",
    )


class ReplyRef(Wire):
    """A reply, with the text that it has now."""

    id: str
    text: str


class RankedReply(ReplyRef):
    """A candidate and its score."""

    score: float


class RankerPrediction(Wire):
    """The answer of a ranker."""

    reply: ReplyRef | None
    score: float
    propensity: float
    candidates: list[RankedReply]
    abstained: bool


class ClassifierPrediction(Wire):
    """The answer of a classifier."""

    label: str | None
    probabilities: dict[str, float] = Field(description="Of the most probable classes (setting max_candidates).")


class RegressorPrediction(Wire):
    """The right number lies within low..high as often as the option `level` says. Null before enough is learned."""

    value: float | None
    low: float | None
    high: float | None


class RouterPrediction(Wire):
    """The answer of a router: a route, the probability with which it was chosen, and that of each other one."""

    route: str | None
    propensity: float
    probabilities: dict[str, float]


class PredictAnswer(Wire):
    """The answers to all instances, by one version."""

    predictions: list[RankerPrediction | ClassifierPrediction | RegressorPrediction | RouterPrediction]
    prediction_ids: list[str]
    feedback_urls: list[str] = Field(
        default_factory=list, description="A signed URL for each prediction, if the request asks for them."
    )
    model_version: str
    learned_until: int
