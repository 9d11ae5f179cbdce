"""The list of models, and the state of the learner."""

from typing import Literal

from pydantic import Field

from online.schemas.fields import Cause, Wire


class ModelCard(Wire):
    """A model, with the fields that OpenAI's clients read."""

    id: str
    object: Literal["model"]
    created: int = Field(description="When the live version was created, in s since 1970; 0: there is none yet.")
    owned_by: str
    kind: str
    task: Literal["classification", "regression", "ranking", "routing"] = Field(
        description="What it predicts: a class, a number, a reply of its repertoire, or a route."
    )
    input: Literal["text", "vector", "table"] = Field(description="What an instance is.")
    size: int = Field(description="The length of a vector; 0: any length, or no vector.")
    fallback: str = Field(description="The router that answers where this model knows no reply; empty: none.")
    share_sums: bool = Field(
        description="Whether its export `learner`, and of a model of tables every export, needs the scope predict only. "
        "Otherwise these need the scope curate."
    )


class ModelsAnswer(Wire):
    """The models that the caller may use."""

    object: Literal["list"]
    data: list[ModelCard]
    models: list[str]


class LearnerState(Wire):
    """The state of the learner's process."""

    state: Literal["running", "restarting", "stopped", "external"]
    reason: str | None = None
    cause: Cause | None = Field(None, description="The same for programs.")


class EncoderFile(Wire):
    """A file of the text encoder."""

    name: str = Field(description="Of the route that sends it: /v1/models/{model}/encoder/{name}.")
    bytes: int
    sha256: str


class EncoderManifest(Wire):
    """The text encoder of a model for other devices, with its weights in int8."""

    epoch: str = Field(description="Names its features. They are close to those of the service, but not the same bits.")
    width: int = Field(description="Numbers of a vector.")
    scale: int = Field(description="Features are the vector times this, rounded and limited to [-127, 127].")
    max_tokens: int = Field(description="Further tokens of a text are left out.")
    files: list[EncoderFile]
