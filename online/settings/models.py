"""The settings of one model: its `[[models]]` table, and the models that are there without one."""

import re
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from online.schemas.json_values import JSON, JSONObject

Drift = Literal["off", "watch", "act"]
GuardMode = Literal["off", "callers", "all"]
Device = Annotated[
    str, StringConstraints(pattern=r"^[a-z]{2,16}(:\d{1,3})?$")
]  # whether it exists, is known when it is used
ROUTE_FACTS = ("name", "price_in", "price_out", "price_cached", "prior")  # of a route, by which the model decides
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def read_guard(given: object) -> object:
    """`true` and `false` are what the setting was before it had a third value."""
    return given if not isinstance(given, bool) else "all" if given else "off"


def read_devices(given: object) -> object:
    """Return a list of devices; a single device becomes a list of one."""
    return (given,) if isinstance(given, str) else given


class FrozenModel(BaseModel):
    """Base of tables in the config file: frozen, and without unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid")


ONE_LINE = r"^[^\x00-\x1f\x7f]*$"
Suggestion = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=120, pattern=ONE_LINE)]


class PageTexts(FrozenModel):
    """A `[page_translations.LANGUAGE]` table of online.toml: the texts of the empty chat page in a language."""

    greeting: str | None = Field(
        None, min_length=1, max_length=200, pattern=ONE_LINE, description="In place of `page_greeting`."
    )
    intro: str | None = Field(None, max_length=300, pattern=ONE_LINE, description="In place of `page_intro`.")
    suggestions: tuple[Suggestion, ...] | None = Field(
        None, max_length=6, description="In place of `page_suggestions`."
    )


class Placement(FrozenModel):
    """A `[models.placement]` table of online.toml: the devices on which a model learns and answers."""

    learn_on: Annotated[tuple[Device, ...], BeforeValidator(read_devices)] = Field(
        (),
        max_length=64,
        description="Device of its learner, or a list over which the members of an ensemble are spread. Default: `device`.",
    )
    serve_on: Annotated[tuple[Device, ...], BeforeValidator(read_devices)] = Field(
        (),
        max_length=64,
        description="Devices that answer: worker 0 answers on the first, worker 1 on the second, and so on in turns; an "
        "ensemble, and a tower that is split (option parallel), is spread over them in every worker. Default: the CPU.",
    )


class GoldenQuestionSettings(FrozenModel):
    """A question whose answer must not change."""

    input: JSON = Field(description="An instance, as in a predict request.")
    answer: str = Field(description="The expected class, or the id or text of the expected reply.")


class ModelSettings(FrozenModel):
    """One `[[models]]` table of online.toml."""

    name: str = Field(description="Name of the model in every URL.")
    kind: str = Field(
        description="Kind of model: ranker, classifier, regressor, river, ...; or package.module:Class of your own."
    )
    options: JSONObject = Field(default_factory=dict, description="Options of the kind.")
    routes: tuple[JSONObject, ...] = Field(
        (),
        max_length=256,
        description="Tables of a router's routes: language models behind OpenAI-compatible endpoints.",
    )
    fallback: str = Field(
        "",
        max_length=64,
        description="Of a ranker: the name of a router whose language models answer the questions to which no reply is known.",
    )
    placement: Placement = Field(
        Placement(), description="Tables {learn_on, serve_on}: the devices on which the model learns and answers."
    )
    drift: Drift = Field(
        "act",
        description=(
            "off; watch: report drift; act: report it and let the model rely on recent examples where these answer better."
        ),
    )
    guard: Annotated[GuardMode, BeforeValidator(read_guard)] = Field(
        "callers",
        description=(
            "When the live version turns bad: roll back, stop learning and quarantine recent feedback. callers: where "
            "callers that are not curators gave a tenth of it or more; all: no matter who gave it; off: never."
        ),
    )
    golden_questions: tuple[GoldenQuestionSettings, ...] = Field(
        (),
        max_length=100,
        description="Tables {input, answer}: a proposed snapshot that loses an answer the live version gives is refused.",
    )
    share_sums: bool = Field(
        False,
        description="Whether every caller who may predict may have the file with which a device goes on learning, such as a "
        "browser without a connection, and of a model of tables every exported file. The first holds sums over what "
        "others have taught: of a class with one example, the example. The others list each category that was seen, "
        "as name=value. Otherwise these files need the scope curate.",
    )
    versions: Annotated[int, Field(ge=1, le=1_000)] | Literal["all"] | tuple[int, ...] = Field(
        2,
        description="Versions that requests can name, beside labelled ones: this many of the newest, all, or a list.",
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_the_old_name_of_golden_questions(cls, table: object) -> object:
        if isinstance(table, dict) and "canaries" in table and "golden_questions" not in table:
            return {("golden_questions" if key == "canaries" else key): value for key, value in table.items()}
        return table

    @model_validator(mode="before")
    @classmethod
    def _let_the_model_know_its_routes(cls, table: object) -> object:
        """Set the option `routes` to what the model decides by; URLs and the names of keys stay here."""
        routes = table.get("routes") if isinstance(table, dict) else None
        if not isinstance(table, dict) or not isinstance(routes, (list, tuple)):
            return table
        facts = [
            {name: each[name] for name in ROUTE_FACTS if name in each} for each in routes if isinstance(each, dict)
        ]
        options = table.get("options", {})
        return {**table, "options": {**options, "routes": facts}} if isinstance(options, dict) and facts else table

    @field_validator("name")
    @classmethod
    def _name_fits_a_url(cls, name: str) -> str:
        if not MODEL_NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is not a model's name: use 1 to 64 letters, digits, '.', '_' or '-', "
                "starting with a letter or digit"
            )
        return name

    @model_validator(mode="after")
    def _guard_needs_detectors(self) -> Self:
        if "guard" in self.model_fields_set and self.guard != "off" and self.drift == "off":
            raise ValueError("guard uses the drift detectors: set drift to 'watch' or 'act', not 'off'")
        return self


SHIPPED = (
    ModelSettings(name="chat", kind="ranker"),
    # drawings of 8 x 8 pixels from 0 to 16, as in the digits of scikit-learn; with a declared scale,
    # un-learning is exact
    ModelSettings(name="digits", kind="classifier", options={"input": "vector", "size": 64, "scale": 16.0}),
)
