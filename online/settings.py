"""Every knob: its name, its default, its unit and one line of help. Passed down, never imported as a value."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

Device = Literal["auto", "cpu", "cuda"]
Drift = Literal["off", "watch", "act"]
MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CanarySettings(Frozen):
    """A question whose answer must not be lost."""

    input: Any = Field(description="an instance, as it would be asked")
    answer: str = Field(description="the label, or the id or the text of the reply, that it gets")


class ModelSettings(Frozen):
    """One `[[models]]` table of online.toml."""

    name: str = Field(description="the model's name in every URL")
    kind: str = Field(description="what learns: ranker, classifier, regressor, river, ...")
    options: dict[str, Any] = Field(default_factory=dict, description="the kind's own options")
    drift: Drift = Field("watch", description="off; watch: tell of drift; act: shorten what the model relies on, too")
    guard: bool = Field(
        False, description="where the loss rises: roll back, learn nothing more, and set apart what was said since"
    )
    canaries: tuple[CanarySettings, ...] = Field(
        (),
        max_length=100,
        description="{input, answer}: a version that no longer gives an answer its predecessor gave is refused",
    )
    versions: Annotated[int, Field(ge=1, le=1_000)] | Literal["all"] | tuple[int, ...] = Field(
        2, description="versions to be asked for beside labelled ones: so many of the newest, all, or these"
    )

    @field_validator("name")
    @classmethod
    def _name_fits_a_url(cls, name: str) -> str:
        if not MODEL_NAME.fullmatch(name):
            raise ValueError("use 1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit")
        return name

    @model_validator(mode="after")
    def _guard_needs_detectors(self) -> Self:
        if self.guard and self.drift == "off":
            raise ValueError("guard sees by the drift detectors: leave drift at 'watch' or 'act'")
        return self


SHIPPED = (
    ModelSettings(name="chat", kind="ranker"),
    # 8 x 8 drawings as scikit-learn's digits are: 0 to 16. A declared scale, so that what is taken back is subtracted
    ModelSettings(name="digits", kind="classifier", options={"input": "vector", "size": 64, "scale": 16.0}),
)


class Settings(Frozen):
    """One table for the whole service: the file online.toml, then the command line over it."""

    state: Path = Field(Path("state"), description="folder that holds everything the service remembers")
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    grpc_port: int | None = Field(
        None, ge=0, le=65535, description="port to listen on for gRPC; 0 takes a free one; default: no gRPC"
    )
    workers: int = Field(1, ge=1, le=64, description="processes that answer predictions, on the one port")
    grpc_max_message_bytes: int = Field(
        4_194_304, ge=1, le=2**31 - 1, description="largest message that gRPC takes, in bytes"
    )
    public_url: str | None = Field(
        None, pattern=r"^https?://", description="where callers reach the service; default: as each of them did"
    )
    admin_key: str | None = Field(
        None, min_length=8, description="key to change what is served; default: from the machine itself alone"
    )
    store: str | None = Field(
        None, description="SQLAlchemy URL of the store; default: a SQLite file in the state folder"
    )
    stream: str | None = Field(None, description="redis:// URL of the stream; default: the store itself")
    device: Device = Field("auto", description="where the learner computes")
    device_memory_fraction: float = Field(
        1.0, gt=0, le=1, description="most of the accelerator's memory that the learner takes, as a share of all of it"
    )
    models: tuple[ModelSettings, ...] = Field(SHIPPED, description="the models to serve, one [[models]] table each")
    repertoire: Path | None = Field(
        None, description="JSONL of replies for a ranker that has none; default: the starter"
    )
    open_webui_url: str | None = Field(
        None, pattern=r"^https?://", description="an Open WebUI whose ratings are learned; default: none"
    )
    open_webui_key: str | None = Field(None, min_length=1, description="API key of an administrator of it")
    open_webui_every_s: float = Field(
        60.0, gt=0, description="pause between two looks at it for what its webhook did not tell, in s"
    )
    langfuse_public_key: str | None = Field(
        None, min_length=1, description="with the secret key: LibreChat may send its ratings as to Langfuse"
    )
    langfuse_secret_key: str | None = Field(None, min_length=1, description="what LibreChat shows to be let in")
    encoder_threads: int = Field(2, ge=1, description="threads that encode one text")
    encoder_adapt: bool = Field(
        False, description="tune text encoders beside the service; take up what is proven better"
    )
    encoder_adapt_every_s: float = Field(
        600.0, gt=0, description="pause between two looks whether enough was taught to tune an encoder, in s"
    )
    max_batch: int = Field(64, ge=1, description="most instances in one micro-batch")
    max_waiting: int = Field(2_048, ge=1, description="most instances that wait for a micro-batch; more get 429")
    request_timeout_ms: int = Field(30_000, ge=1, description="longest wait for a micro-batch, in ms; then 504")
    max_instances: int = Field(1024, ge=1, description="most instances or feedback items in one request")
    max_body_bytes: int = Field(4_000_000, ge=1, description="largest request body, in bytes")
    max_json_depth: int = Field(64, ge=8, le=200, description="deepest nesting of JSON in a request, in levels")
    max_tensor_elements: int = Field(
        4_194_304, ge=1, description="most elements of one request's tensors, and of its instances together"
    )
    max_log_bytes: int = Field(268_435_456, ge=1, description="largest log that may be sent to be replayed, in bytes")
    replays_kept: int = Field(10, ge=1, description="newest replays of logs that were sent whose reports are kept")
    job_folders: tuple[Path, ...] = Field(
        (), description="folders whose files batch prediction jobs may read and write; default: no jobs by the API"
    )
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

    @model_validator(mode="after")
    def _in_pairs(self) -> Self:
        pairs = (("open_webui_url", "open_webui_key"), ("langfuse_public_key", "langfuse_secret_key"))
        for pair in pairs:
            if [getattr(self, name) for name in pair].count(None) == 1:
                raise ValueError(f"{pair[0]} and {pair[1]} are set together, or not at all")
        return self

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
