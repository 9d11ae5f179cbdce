"""The classes of a classifier, and what taught them. The wire calls a class `label`, as feedback and predictions do."""

from pydantic import Field

from online.schemas.feedback import FeedbackStatus
from online.schemas.fields import Wire
from online.schemas.json_values import JSON


class ClassState(Wire):
    """A class, and whether it is predicted."""

    label: str = Field(description="The class.")
    active: bool = Field(
        description="False: it is not predicted, because it was retired, until it is restored, or because of `refusal`."
    )
    offset: int = Field(
        description="Of the event that last retired or restored it, or else of the first that named it."
    )
    refusal: str | None = Field(
        description="Why the model could learn nothing of the feedback that named it, as past its limit of classes. "
        "Null where it has learned some, or has not read it yet."
    )


class ClassesAnswer(Wire):
    """The classes of a model."""

    classes: list[ClassState]
    labels: list[ClassState] = Field(description="The same list under its former name.", deprecated=True)


class TaughtExample(Wire):
    """One example: an input, and the feedback that named its class."""

    id: str = Field(description="Of the feedback; retracting it takes the example back.")
    prediction_id: str | None = Field(description="The prediction that the feedback is about; null for an input.")
    input: JSON = Field(description="As it was given, for a vector a list of numbers. Null where it is not kept.")
    status: FeedbackStatus = Field(description="held: it counts only once it is accepted.")
    offset: int | None = Field(description="Of its event; null while it is held.")
    given_at: str


class TaughtClass(Wire):
    """One class, and what it was taught by."""

    label: str
    active: bool = Field(description="False: it was retired, and is not predicted until it is restored.")
    count: int = Field(description="How many examples count now; not all of them need to be listed.")
    held: int = Field(description="How many more wait to be accepted.")
    examples: list[TaughtExample] = Field(description="The newest first.")


class RejectedExample(Wire):
    """An example that a curator decided not to learn."""

    id: str = Field(description="Of the feedback.")
    label: str
    input: JSON = Field(description="As it was given, for a vector a list of numbers. Null where it is not kept.")
    reason: str | None = Field(description="What the curator wrote to its user; null for nothing.")
    given_at: str


class ExamplesAnswer(Wire):
    """A user's examples by class."""

    classes: list[TaughtClass] = Field(description="The class that was taught last first.")
    count: int = Field(description="How many examples of these classes count now.")
    rejected: list[RejectedExample] = Field(
        description="The user's newest examples that a curator rejected, at most `limit`, the newest first."
    )


class ForgottenClass(Wire):
    """Examples of a class that their user has taken back."""

    label: str
    count: int = Field(description="How many examples were taken back, with those that were held.")
    offset: int = Field(description="Of the last retraction; 0: there was nothing to retract.")
