"""Every knob: its name, its default, its unit and one line of help. Passed down, never imported as a value."""

import re
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

Device = Literal["auto", "cpu", "cuda"]
Drift = Literal["off", "watch", "act"]
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelSettings(Frozen):
    """One `[[models]]` table of online.toml."""

    name: str = Field(description="the model's name in every URL")
    kind: str = Field(description="what learns: ranker, classifier, regressor, river, ...")
    options: dict[str, Any] = Field(default_factory=dict, description="the kind's own options")
    drift: Drift = Field("watch", description="off; watch: tell of drift; act: shorten what the model relies on, too")

    @field_validator("name")
    @classmethod
    def _name_fits_a_url(cls, name: str) -> str:
        if not MODEL_NAME.fullmatch(name):
            raise ValueError("use 1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit")
        return name


class Settings(Frozen):
    """One table for the whole service: the file online.toml, then the command line over it."""

    state: Path = Field(Path("state"), description="folder that holds everything the service remembers")
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    store: str | None = Field(
        None, description="SQLAlchemy URL of the store; default: a SQLite file in the state folder"
    )
    stream: str | None = Field(None, description="redis:// URL of the stream; default: the store itself")
    device: Device = Field("auto", description="where the learner computes")
    device_memory_fraction: float = Field(
        1.0, gt=0, le=1, description="most of the accelerator's memory that the learner takes, as a share of all of it"
    )
    models: tuple[ModelSettings, ...] = Field(
        (ModelSettings(name="chat", kind="ranker"),), description="the models to serve, one [[models]] table each"
    )
    repertoire: Path | None = Field(
        None, description="JSONL of replies for a ranker that has none; default: the starter"
    )
    encoder_threads: int = Field(2, ge=1, description="threads that encode one text")
    encoder_adapt: bool = Field(
        False, description="tune text encoders beside the service; take up what is proven better"
    )
    encoder_adapt_every_s: float = Field(
        600.0, gt=0, description="pause between two looks whether enough was taught to tune an encoder, in s"
    )
    max_batch: int = Field(64, ge=1, description="most instances in one micro-batch")
    max_instances: int = Field(1024, ge=1, description="most instances or feedback items in one request")
    max_body_bytes: int = Field(4_000_000, ge=1, description="largest request body, in bytes")
    max_text_chars: int = Field(8_000, ge=1, description="longest text to answer, in characters")
    max_label_chars: int = Field(200, ge=1, description="longest label, in characters")
    learn_batch: int = Field(256, ge=1, description="most events the learner takes at once")
    publish_every_ms: float = Field(10.0, ge=0, description="shortest time between two publications, in ms")
    durable_every_s: float = Field(2.0, gt=0, description="longest time between two durable snapshots, in s")
    retain: int = Field(20, ge=2, description="newest versions kept, and as many durable ones beside them")
    restart_max_s: float = Field(10.0, gt=0, description="longest pause before a dead learner is started again, in s")

    @field_validator("models")
    @classmethod
    def _names_are_unique(cls, models: tuple[ModelSettings, ...]) -> tuple[ModelSettings, ...]:
        names = [model.name for model in models]
        if not names:
            raise ValueError("declare at least one [[models]] table")
        if len(set(names)) < len(names):
            raise ValueError(f"two models share a name: {', '.join(sorted(names))}")
        return models

    @property
    def store_url(self) -> str:
        return self.store or f"sqlite:///{self.state.resolve() / 'online.db'}"

    def model(self, name: str) -> ModelSettings | None:
        return next((model for model in self.models if model.name == name), None)


def load(config: Path | None, **flags: Any) -> Settings:
    """The settings of `config` (default: ./online.toml where it exists) with the flags that were given over them.

    Raises ValueError that names the key and what is wrong with it.
    """
    path = config or Path("online.toml")
    table: dict[str, Any] = {}
    if config is not None or path.exists():
        try:
            table = tomllib.loads(path.read_text())
        except FileNotFoundError:
            raise ValueError(f"there is no config file at {path}") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from None
    table.update({key: value for key, value in flags.items() if value is not None})
    try:
        return Settings.model_validate(table)
    except ValidationError as error:
        raise ValueError(f"{path}: {describe(error)}") from None


def describe(error: ValidationError) -> str:
    """A pydantic error as one sentence per finding: where it is, and what is wrong there."""
    findings = ("{}: {}".format(".".join(map(str, item["loc"])) or "document", item["msg"]) for item in error.errors())
    return "; ".join(findings)
