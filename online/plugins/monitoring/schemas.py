"""Drift alarms, refused feedback and the prequential curve."""

from typing import Literal

from pydantic import Field

from online.schemas.fields import RATED, Wire
from online.schemas.json_values import JSON


class DriftAlarm(Wire):
    """An alarm of a drift detector: what changed (the loss, the loss of a class, the features), since when, by how much."""

    offset: int = Field(description="Of the feedback that raised the alarm.")
    what: Literal["loss", "class", "features"]
    label: str | None
    projection: int | None = Field(description="Of the features: the direction that changed most.")
    since: int = Field(description="The approximate offset where the change began.")
    before: float = Field(description="The mean loss before; of the features, their mean in the direction.")
    after: float
    size: float = Field(description="after - before; of the features, the Kolmogorov-Smirnov distance.")
    window: int = Field(description="The number of entries that the detector compared.")
    noted_at: str


class DriftChange(Wire):
    """The alarms of one change: detectors and classes raise many of one."""

    since: int = Field(
        description="The approximate offset where the change began; of one that is the same event as a fall of the newest "
        "answers, where that event began."
    )
    since_at: str | None = Field(description="When the first feedback from there on was given.")
    offset: int = Field(description="Of the feedback that raised its first alarm.")
    noted_at: str
    alarms: list[DriftAlarm] = Field(description="Oldest first.")
    version_before: str | None = Field(
        description="The newest kept version before the live one that had not learned the change; null: there is none."
    )


class DriftAnswer(Wire):
    """The drift alarms of a model."""

    drift: list[DriftAlarm]
    changes: list[DriftChange] = Field(description="The same alarms, grouped by the change, newest first.")


class RatedStretch(Wire):
    """Consecutive judgements of answers. A rating that was replaced or taken back later stays counted."""

    count: int
    mean: float = Field(description="Their accuracy in [0, 1]; for numbers, their mean absolute error.")
    offset: int = Field(description="Of the last feedback among them; 0 of all judgements.")


class HealthReason(Wire):
    """A reason for a verdict."""

    code: str = Field(description="For programs; new ones may be added.")
    level: Literal["attention", "not_learning", "unknown", "notice"] = Field(
        description="What it does to the status: needs_attention, not_learning, too_little_feedback, or nothing."
    )
    sentence: str
    figures: dict[str, float | int | str | None] = Field(description="What the sentence says, by name.")


class RollBackDetails(Wire):
    """The last roll back, and the judgements since."""

    version: str = Field(description="The version that it made live.")
    since: int = Field(description="The offset that the newest version had learned then.")
    judged: RatedStretch | None = Field(
        description="The judgements since, of the newest thousand, of that version and later ones. Null: none."
    )


class CurrentRatings(Wire):
    """The present ratings of all answers, as in the usage and the repertoire."""

    rated: int = Field(description=RATED)
    good: int
    bad: int


class HealthAnswer(Wire):
    """The verdict on a model: one status, the reasons for it, worst first, and the figures that it rests on.

    The figures are prequential: each feedback judges the answer that was given before it, once, when it comes, and stays counted.
    What of that still stands is in `ratings`.
    """

    status: Literal["good", "needs_attention", "not_learning", "too_little_feedback"]
    sentence: str
    reasons: list[HealthReason]
    measure: Literal["right", "error"]
    recent: RatedStretch | None = Field(
        description="The last 100 judgements, or after a sudden fall the last 50; after a roll back, those of versions that had "
        "learned no more. Null: none."
    )
    lifetime: RatedStretch | None
    ratings: CurrentRatings
    guessers: dict[str, float] = Field(
        description="The same of naive guessers on those of the `recent` questions that judge them: a bad rating of another answer "
        "does not."
    )
    guesser_counts: dict[str, int] = Field(description="How many of those questions judge each of them.")
    trend: list[RatedStretch] = Field(
        description="The newest thousand judgements, or all, in groups of 50, oldest first; the oldest group has up to 99."
    )
    last_roll_back: RollBackDetails | None = Field(
        description="The newest roll back, also when a newer version is live again; null: none."
    )
    version: str
    newest_version: str = Field(description="It is not live after a roll back.")
    learned_until: int
    head: int
    counted_until: int


class Tally(Wire):
    """The number of right answers; of numbers, the sum of errors."""

    judged: int = Field(description="The number of outcomes that judge its answers.")
    total: float = Field(description="How many of those were right; of numbers, the sum of the absolute errors.")


class CurvePoint(Wire):
    """The outcomes after the previous point, up to number `until`. counts, sums: by the name of the tally."""

    until: int
    offset: int = Field(description="Of the last feedback among them.")
    began: str | None
    ended: str | None
    counts: dict[str, int]
    sums: dict[str, float]


class CurveAnswer(Wire):
    """The share of right answers along the log, compared with baselines that see the same feedback.

    The baselines are `no_change` (the last class again) and `majority` (the most frequent class; of numbers `mean`). An outcome
    is judged when it arrives, and stays counted if it is retracted later, so that a replay of the log counts the same: one
    thumb, a lesson in its place, and the thumb again are three. What of that still stands is in `rated` and `right`.
    """

    measure: Literal["right", "error"]
    counted_until: int = Field(
        description="Everything up to this offset is counted; it is below `head` while a long log is being counted."
    )
    head: int
    judged: int = Field(description="How often feedback judged an answer, when it came.")
    judged_right: int = Field(description="Of those, how often the answer was right.")
    rated: int = Field(description=RATED)
    right: int = Field(description="Of those, the ones that say that the answer was right.")
    feedback: int = Field(description="The number of all feedbacks.")
    feedback_per_minute: float = Field(description="In the last minute.")
    tallies: dict[str, Tally]
    points: list[CurvePoint]


class JudgedAnswer(Wire):
    """The number of judged answers up to each offset."""

    judged: list[int | None] = Field(
        description="How many answers had been judged up to each offset, in the order of the request; the feedback at the offset "
        "counts too. Null: not counted yet, or no longer known, because the events had expired."
    )


class GivenAnswer(Wire):
    """The answer of a version."""

    choice: str | None = Field(description="The class, the number or the id of the reply; null: no answer.")
    text: str | None = Field(description="Of the reply.")
    score: float


class NewestFeedback(Wire):
    """The newest feedback about a question: one of the three."""

    reward: float | None
    label: str | None
    correction: str | None
    choice: str | None = Field(description="The answer that a reward rates.")


class ChangedAnswer(Wire):
    """A question that the later version answers otherwise."""

    question: JSON = Field(description="The instance that was sent.")
    asked: int = Field(description="How often it was asked among the newest predictions.")
    asked_at: str
    before: GivenAnswer
    after: GivenAnswer
    said: NewestFeedback | None
    better: bool | None = Field(
        description="True if the new answer matches the latest feedback and the old one did not; false for the reverse; null if unknown."
    )


class VersionChangesAnswer(Wire):
    """The newest questions that a version answers differently from an earlier one."""

    version: str
    since: str
    questions: int = Field(description="How many were compared.")
    unchanged: int
    better: int
    worse: int
    changes: list[ChangedAnswer] = Field(description="Newest question first.")
