"""The explanation of a ranker's reply."""

from typing import Literal

from pydantic import Field

from online.schemas.fields import Wire
from online.schemas.predict import ReplyRef


class ReplyScore(Wire):
    """The score of a reply for one question, as the sum of its terms."""

    id: str
    text: str
    score: float
    sums: float = Field(description="Of the features that the questions it was right for have in common.")
    evidence: float = Field(description="Of the rated questions nearby.")
    standing: float = Field(description="Of all its ratings, independent of the question.")
    moved: float = Field(
        description="By corrections of scope reply: to the new reply from the one that it supersedes, or away from that."
    )


class RatedQuestion(Wire):
    """A rated question or an example question near this one."""

    question: str | None = Field(description="Null where it was erased.")
    reply: ReplyRef
    likeness: float = Field(description="The cosine similarity of the two questions.")
    reward: float = Field(description="From -1 to 1.")
    said: Literal["correction", "thumb", "example"]
    feedback_id: str | None
    offset: int


class Explanation(Wire):
    """The explanation of a reply."""

    model_version: str = Field(description="The version that explains: the live one.")
    answered_by: str = Field(description="The version that answered.")
    settled: str | None = Field(description="The reply that the newest feedback about exactly this question asks for.")
    grounds: list[ReplyScore] = Field(description="The reply that was given, then the best others.")
    witnesses: list[RatedQuestion] = Field(description="The nearest first.")
