"""The field types and the classes that the other schemas share."""

import math
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    SerializationInfo,
    StringConstraints,
)

from online.schemas.labels import name_label

Language = Literal["en", "de"]  # of the pages and of reports


def _check_path_segment(id: str) -> str:
    if id in (".", ".."):
        raise ValueError("'.' and '..' are not valid ids")
    return id


# an id must not contain '#', which ids of further events contain (store/events.py), nor '/', which would end it in a URL path
ID_PATTERN = r"^[^#/\x00-\x1f\x7f]+$"
Id = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=ID_PATTERN), AfterValidator(_check_path_segment)
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]  # Postgres cannot store NUL


def _number_as_text(label: object) -> object:
    """12.5 -> "12.5", 1.0 -> "1": a label is a text, also where it stands for a number (see labels.py).

    Raises ValueError for NaN and infinities.
    """
    if isinstance(label, float) and not math.isfinite(label):
        raise ValueError(f"a label that is a number must be finite, not {label}")
    return name_label(label) if type(label) in (int, float) else label


Label = Annotated[Text, BeforeValidator(_number_as_text, json_schema_input_type=Text | float)]

# every count of ratings is this one
RATED = (
    "Ratings that stand: one for each person and answer, without what was replaced or taken back. "
    "A thumb with its reason and comment is one."
)


class Wire(BaseModel):
    """The base class of every schema. As a request it ignores unknown fields, as the protocols of other servers do."""

    model_config = ConfigDict(frozen=True)


class NativeRequest(Wire):
    """The base class of the requests of the native API: an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


CauseCode = Literal[
    "guard",
    "loss_rose",
    "process_ended",
    "process_not_started",
    "log_ends_early",
    "log_has_other_events",
    # of a log that was uploaded
    "log_empty",
    "log_too_large",
    "log_label_missing",
    "log_column_missing",
    "log_column_twice",
    "log_column_unusable",
    "log_lines_invalid",
    "log_line_too_long",
    "log_unpacks_too_large",
    "log_unreadable",
    "log_cut_off",
    "log_without_rows",
    "log_of_other_release",
    "logs_waiting",
    "upload_cut_off",
]


class Cause(Wire):
    """The cause of an act of the service, beside its English sentence: a page words it from the code and the figures."""

    code: CauseCode = Field(description="For programs; new ones may be added.")
    figures: dict[str, float | int | str] = Field(description="What the sentence beside it says, by name.")


class ErrorAnswer(Wire):
    """An error: a sentence, and for some a cause that programs can read."""

    error: str
    given: int | None = Field(None, description="Where a text is too long: its characters.")
    limit: int | None = Field(None, description="Where a text is too long: the most characters.")
    by: str | None = Field(None, description="Where somebody else decided before: who.")
    action: str | None = Field(None, description="Where somebody else decided before: what.")
    cause: Cause | None = Field(None, description="Where a log is refused: why, for programs.")


REVEAL_SECRETS = {"reveal_secrets": True}  # the serialization context that writes secrets in clear


def serialize_secret(secret: SecretStr, info: SerializationInfo) -> str:
    """Return a secret masked, or as it is where the context reveals secrets."""
    is_revealed = bool(info.context and info.context.get("reveal_secrets"))
    return secret.get_secret_value() if is_revealed else str(secret)


Secret = Annotated[SecretStr, PlainSerializer(serialize_secret, when_used="json-unless-none")]


def reveal(secret: SecretStr | None) -> str | None:
    """Return a secret as text."""
    return None if secret is None else secret.get_secret_value()


def check_pairs(settings: BaseModel, *pairs: tuple[str, str]) -> None:
    """Raise ValueError for a pair of settings of which one is set."""
    for pair in pairs:
        if [getattr(settings, name) for name in pair].count(None) == 1:
            raise ValueError(f"{pair[0]} and {pair[1]} are set together, or not at all")
