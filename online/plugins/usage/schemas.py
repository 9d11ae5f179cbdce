"""The usage of a model, and its most frequent questions."""

from typing import Literal

from pydantic import Field

from online.schemas.fields import RATED, Wire


class Usage(Wire):
    """The usage in a span of time, with the ratings of its answers, whenever they were given."""

    asked: int = Field(description="Predictions that were recorded.")
    answered: int = Field(description="Of those, the ones that got an answer.")
    rated: int = Field(description=RATED)
    good: int = Field(description="Of those, the ones that say that the answer was right.")
    bad: int = Field(description="Of those, the ones that say that it was wrong. A number is neither.")
    corrected: int = Field(description="Questions for which somebody gave another answer, or the first one.")
    satisfaction: float | None = Field(description="good / (good + bad). Null without any.")
    satisfaction_low: float | None = Field(description="The 95 % interval of the satisfaction (Wilson).")
    satisfaction_high: float | None
    answered_alone: int = Field(
        description="Questions that got an answer which nobody has called wrong or corrected, staff included."
    )
    answered_alone_share: float | None = Field(description="answered_alone / asked. Null without questions.")


class UsageSpan(Usage):
    """since, until: of the part of the hour, day, week or month that is in the range. Instants, with the local offset."""

    since: str
    until: str


class UsageAnswer(Wire):
    """Usage over calendar time."""

    since: str
    until: str
    by: Literal["hour", "day", "week", "month"]
    timezone: str
    total: Usage
    spans: list[UsageSpan]
    counted_since: str | None = Field(
        description="When the first question was counted. Counts stay when retention deletes the predictions."
    )
    kept_since: str | None = Field(description="About when the oldest prediction that is still stored was answered.")
    is_complete: bool = Field(description="False while ratings of a long log are being counted; ask again.")


class TopQuestion(Wire):
    """Questions of one meaning. text: the one that was asked most. variants: others of them."""

    text: str
    variants: list[str]
    variant_count: int
    asked: int
    unanswered: int
    good: int
    bad: int
    satisfaction: float | None
    reply: str | None = Field(description="The id of the reply, or the class, that was answered most. Null for none.")
    reply_text: str | None
    reply_count: int
    inbox_group: str | None = Field(
        description="The id of an open group of the inbox with such a question, for a model with replies. Null: there is none."
    )
    prediction_id: str = Field(description="Of the newest such question.")
    asked_at: str


class TopQuestionsAnswer(Wire):
    """The questions that are asked most."""

    since: str
    until: str
    timezone: str
    questions: list[TopQuestion]
    looked_at: int = Field(
        description="Predictions of the model among the newest ones of all models, which were searched."
    )
    complete_since: str | None = Field(
        description="When the oldest of them was answered, if there are older ones in the range that were not searched."
    )
    reason: str | None = Field(description="Why there are no questions to show; null if there are.")
