"""The table of settings: name, type, default, unit and one line of help each. Those of a model are in models.py."""

import hashlib
import re
from fnmatch import fnmatchcase
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    Field,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from online.installed import collect
from online.schemas.access.callers import PublicTeaching, Scope
from online.schemas.fields import REVEAL_SECRETS, Language, Secret, check_pairs
from online.settings.models import ONE_LINE, SHIPPED, Device, ModelSettings, PageTexts, Suggestion

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
Part = TypeVar("Part", bound=BaseModel)
SHARE = re.compile(r"(\d{1,4})/(\d{1,4})")
POSTGRES_URL = re.compile(r"postgres(?:ql)?(?:\+(?P<driver>\w+))?://")
WebOrigin = Annotated[
    str, Field(pattern=r"^https?://[A-Za-z0-9.-]+(:\d{1,5})?$|^https?://\[[0-9A-Fa-f:]+\](:\d{1,5})?$")
]


class ServiceSettings(BaseSettings):
    """The settings of the core. Those of plugins are added to them: see `Settings`.

    The constructor takes what it is given and reads neither a file nor the environment; `load`
    does.
    """

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="ONLINE_", env_ignore_empty=True, hide_input_in_errors=True
    )

    state: Path = Field(Path("state"), description="Folder that holds all data of the service.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    grpc_port: int | None = Field(
        None, ge=0, le=65535, description="Port to listen on for gRPC; 0 takes a free one. Default: no gRPC."
    )
    workers: int = Field(1, ge=1, le=64, description="Processes that answer predictions on the one port.")
    grpc_max_message_bytes: int = Field(4_194_304, ge=1, le=2**31 - 1, description="Largest gRPC message, in bytes.")
    grpc_max_calls: int = Field(
        1_000, ge=1, description="Most open gRPC calls, streams included; further ones get RESOURCE_EXHAUSTED."
    )
    public_url: str | None = Field(
        None,
        pattern=r"^https?://",
        description="URL by which clients reach the service. Default: as in each request; "
        "then, off a loopback address, answers carry no feedback URLs.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Host names by which clients reach the service, beside that of public_url, addresses and names without "
        "a dot; *.example.com allows all below it.",
    )
    cors_origins: tuple[WebOrigin, ...] = Field(
        (),
        description="Origins, such as https://example.com, whose pages may use the API from a browser. Default: none.",
    )
    widget_origins: tuple[WebOrigin, ...] = Field(
        (),
        description="Origins, such as https://example.com, whose pages may show the chat: with the widget, to visitors "
        "(`public_teaching`), or the chat page in a frame. Default: none.",
    )
    page_name: str | None = Field(
        None,
        min_length=1,
        max_length=40,
        pattern=ONE_LINE,
        description="Name of this service on its pages. Default: online; with the starter repertoire, the library's name.",
    )
    page_logo: Path | None = Field(
        None, description="SVG or PNG file of the logo on the pages, of at most 200 kB. Default: the shipped one."
    )
    page_greeting: str | None = Field(
        None, min_length=1, max_length=200, pattern=ONE_LINE, description="What the empty chat page says first."
    )
    page_intro: str | None = Field(
        None, max_length=300, pattern=ONE_LINE, description="A sentence under that greeting; empty for none."
    )
    page_color: str | None = Field(
        None,
        pattern=r"^#[0-9A-Fa-f]{6}$",
        description="Color of buttons and links on the pages, such as #1b6f5a. It is darkened or lightened until texts in it "
        "can be read. Default: the shipped green.",
    )
    page_suggestions: tuple[Suggestion, ...] | None = Field(
        None,
        max_length=6,
        description="Questions that the empty chat page suggests. Default: three with the starter repertoire, else none.",
    )
    page_language: Language | None = Field(
        None,
        description="Language of those three texts: en or de. Pages in another language mark them, for screen readers. "
        "Default: not known; of the starter's, en.",
    )
    page_translations: dict[Language, PageTexts] = Field(
        default_factory=dict, description="Those three texts in other languages: a table for each, such as de."
    )
    tls_certificate: Path | None = Field(
        None, description="PEM file of the certificate for HTTPS and gRPC. Default: no TLS; a proxy may add it."
    )
    tls_key: Path | None = Field(None, description="PEM file of the key beside that certificate, without a passphrase.")
    root_path: str = Field(
        "",
        pattern=r"^((/[A-Za-z0-9._~-]+)+/?)?$",
        description="Path prefix of a reverse proxy in front of the service. Default: from X-Forwarded-Prefix of trusted_proxies.",
    )
    admin_key: Secret | None = Field(
        None,
        min_length=8,
        description="A key with every scope. With it, as with any key, callers need one. Default: no such key.",
    )
    admin: Literal["local"] | None = Field(
        None,
        description="local: programs on this machine need no key, even where keys exist. Default: they need none while there "
        "is no key and the service listens on this machine only.",
    )
    open: bool = Field(
        False,
        description="Let every caller who reaches the service predict, teach and curate without a key. Without it and without "
        "keys, the service listens on this machine only.",
    )
    public_teaching: PublicTeaching | None = Field(
        None,
        description="What visitors of the chat page, who have no key, may teach: off, review (held until a curator accepts "
        "it) or on. Default: there are no visitors.",
    )
    share_conversations: bool = Field(
        True,
        description="Let users share a conversation by a link, which every holder of it can read. False: nobody shares, and "
        "the links there are do not work.",
    )
    trusted_proxies: tuple[str, ...] = Field(
        (),
        description="Addresses or networks, such as 10.0.0.0/8, of proxies whose X-Forwarded-For, -Proto and -Prefix count; also "
        "on this machine: 127.0.0.1.",
    )
    identity_header: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9-]{1,64}$",
        description="Header in which a trusted proxy names the user that it has signed in, such as X-Forwarded-Email.",
    )
    identity_scopes: tuple[Scope, ...] = Field(
        ("predict", "feedback", "teach"), description="Scopes of the users that a trusted proxy names."
    )
    feedback_per_hour: int = Field(
        600,
        ge=1,
        description="Most feedback of one caller in an hour; further ones get status 429. Curators have no limit.",
    )
    teaching_per_hour: int = Field(
        60,
        ge=1,
        description="Most new replies, new classes and examples of one caller in an hour. Curators have no limit.",
    )
    max_merge_bytes: int = Field(
        3_000_000,
        ge=1,
        description="Largest file of sums that a device may send to be merged, in bytes. A log that holds larger ones is read "
        "with a larger max_line_bytes.",
    )
    max_merge_examples: int = Field(1_000, ge=1, le=2**39, description="Most examples whose sums are merged at once.")
    max_merge_examples_per_user: int = Field(
        5_000,
        ge=1,
        description="Most examples in the sums of one user, or of a caller without one, that stand; more get status 429 until "
        "some are retracted. Curators have no limit.",
    )
    requests_per_minute: int = Field(600, ge=1, description="Most requests of one visitor or user in a minute.")
    key_requests_per_minute: int = Field(60_000, ge=1, description="Most requests with one key in a minute.")
    address_requests_per_minute: int = Field(
        6_000, ge=1, description="Most requests without a key from one address in a minute."
    )
    instances_per_minute: int = Field(
        20_000,
        ge=1,
        description="Most instances of one visitor or user in a minute: inputs to predict for, and items of feedback.",
    )
    key_instances_per_minute: int = Field(10_000_000, ge=1, description="Most instances with one key in a minute.")
    address_instances_per_minute: int = Field(
        1_000_000, ge=1, description="Most instances without a key from one address in a minute."
    )
    bytes_per_minute: int = Field(
        20_000_000,
        ge=1,
        description="Most bytes of one visitor or user in a minute: of the bodies of their requests, decoded.",
    )
    key_bytes_per_minute: int = Field(4_000_000_000, ge=1, description="Most bytes with one key in a minute.")
    address_bytes_per_minute: int = Field(
        400_000_000, ge=1, description="Most bytes without a key from one address in a minute."
    )
    sign_ins_per_minute: int = Field(
        10,
        ge=1,
        description="Most attempts to sign in from one address in a minute. Raise it where many people share an address.",
    )
    store: str | None = Field(
        None, description="SQLAlchemy URL of the store. Default: a SQLite file in the state folder."
    )
    secret: Secret | None = Field(
        None,
        min_length=16,
        description="Encrypts the signing keys in a store on Postgres, which all replicas share; the same random text on each of "
        "them. Default: each state folder has signing keys of its own, and one replica serves the store.",
    )
    stream: str | None = Field(None, description="redis:// URL of the stream. Default: the store itself.")
    device: Device = Field(
        "auto",
        description="Where the learner computes: auto, cpu, cuda, or one of several, such as cuda:1. A model's `placement` "
        "goes before it.",
    )
    device_memory_fraction: float = Field(
        1.0, gt=0, le=1, description="Largest share of each accelerator's memory for the learner, from 0 to 1."
    )
    device_memory_bytes: int | None = Field(
        None,
        ge=1,
        description="Most bytes of each accelerator's memory for the learner, where that is less than its share. Default: no "
        "such cap.",
    )
    device_memory_growth: Literal["grow", "reserve"] = Field(
        "grow",
        description="grow: the learner takes memory of an accelerator as it needs it; reserve: its whole share when it starts.",
    )
    serving_memory_fraction: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Largest share of an accelerator's memory for each process that answers there (`serve_on`), from 0 to 1.",
    )
    log_level: LogLevel = Field("info", description="Least severe log lines to write.")
    log_format: LogFormat = Field("text", description="Format of log lines: text, or JSON for machines.")
    models: tuple[ModelSettings, ...] = Field(SHIPPED, description="The models to serve, one [[models]] table each.")
    own_models: tuple[str, ...] = Field(
        (),
        description="Models that this replica serves and learns: names, patterns such as topic-*, or a share such as 1/3 of all. "
        "Requests for the others are forwarded to the replicas that have them. Default: all models.",
    )
    repertoire: Path | None = Field(
        None, description="JSONL file of replies for a ranker that has none. Default: the starter repertoire."
    )
    encoder_threads: int = Field(2, ge=1, description="Threads that encode one text.")
    max_batch: int = Field(64, ge=1, description="Most instances in one micro-batch.")
    max_waiting: int = Field(
        2_048,
        ge=1,
        description="Most instances that wait for a micro-batch, and requests that wait for an offset; "
        "further requests get status 429.",
    )
    request_timeout_ms: int = Field(
        30_000, ge=1, description="Longest wait for a micro-batch, in milliseconds; then status 504."
    )
    max_connections: int = Field(
        10_000,
        ge=1,
        description="Most open connections of one process; further ones get status 503. "
        "Fewer where the process may not open so many files.",
    )
    max_connections_per_address: int = Field(
        256,
        ge=1,
        description="Most open connections from one address, except this machine's own; further ones get status 429.",
    )
    request_read_timeout_s: float = Field(
        15.0,
        gt=0,
        description="Longest time for a request to arrive, in seconds, beside one second for each 10 kB; then status 408.",
    )
    answer_read_timeout_s: float = Field(
        60.0,
        gt=0,
        description="Longest time that a client may leave its answer unread, in seconds; then it is cut off.",
    )
    max_instances: int = Field(1024, ge=1, description="Most instances or feedback items in one request.")
    max_candidates: int = Field(
        20,
        ge=1,
        description="Most classes or replies that an answer lists and that are stored of it, the best ones. An answer that a "
        "ranker's policy drew lists all that it was drawn from (the ranker's option `candidates`).",
    )
    max_body_bytes: int = Field(4_000_000, ge=1, description="Largest request body, in bytes.")
    max_json_depth: int = Field(64, ge=8, le=200, description="Deepest nesting of JSON in a request, in levels.")
    max_tensor_elements: int = Field(
        4_194_304, ge=1, description="Most elements in the tensors of one request, and in its instances together."
    )

    max_line_bytes: int = Field(
        4_194_304,
        ge=131_072,
        description="Longest line or row, in bytes, of a file that is read: a log, or the input of a batch job.",
    )
    max_unpacked_bytes: int = Field(
        8_589_934_592, ge=1, description="Most bytes that a compressed file may unpack to while it is read."
    )
    max_unpacked_ratio: float = Field(
        200.0,
        ge=1,
        description="Most bytes that a compressed file may unpack to for each of its own, after the first 16 MB.",
    )
    max_job_memory_bytes: int = Field(
        4_294_967_296,
        ge=67_108_864,
        description="Most memory that a process which reads an uploaded log, or the input of a batch job, may take beside "
        "what it starts with, in bytes.",
    )
    max_job_cpu_s: int = Field(3_600, ge=1, description="Most processor time of such a process, in seconds.")
    max_job_hours: float = Field(
        24.0,
        gt=0,
        description="Longest time, in hours, that a batch job, a replay, a report or an attempt to tune an encoder may take from "
        "its turn on, waiting included; then it is ended.",
    )

    max_text_chars: int = Field(8_000, ge=1, description="Longest text to answer, in characters.")
    max_label_chars: int = Field(200, ge=1, description="Longest class name in feedback, in characters.")
    min_free_bytes: int | None = Field(
        None,
        ge=0,
        description="Free bytes of the state folder's disk below which predictions are not recorded and feedback gets status "
        "507; 0: no such floor. Default: 500 MB, or a tenth of a smaller disk.",
    )
    retention_days: float | None = Field(
        None,
        gt=0,
        le=36_500,
        description="Days for which predictions without feedback, conversations, reports, uploaded logs and records of jobs are "
        "kept. Default: without end.",
    )
    retention_bytes: int | None = Field(
        None,
        ge=1,
        description="Most bytes of recorded predictions, about; the oldest ones without feedback are deleted. Default: no limit.",
    )
    event_retention_days: float | None = Field(
        None,
        ge=1,
        le=36_500,
        description="Days for which the contents of learned events are kept, with the predictions that they are about; the model keeps "
        "what it has learned. The price: feedback that is older can be neither retracted nor un-learned when its user is "
        "erased, another kind or other options learn only what is left, and encoders cannot be tuned. Default: without end.",
    )
    learn_batch: int = Field(256, ge=1, description="Most events that the learner takes at once.")
    learn_quantum_ms: float | None = Field(
        None,
        gt=0,
        description="About the longest time, in milliseconds, for which the learner computes before those who answer on the "
        "same device get a chance; it then takes fewer events at once. Default: no limit beside learn_batch.",
    )
    publish_every_ms: float = Field(10.0, ge=0, description="Shortest time between two publications, in milliseconds.")
    durable_every_s: float = Field(2.0, gt=0, description="Longest time between two durable snapshots, in seconds.")
    retain: int = Field(20, ge=2, description="Number of newest versions kept, and of durable ones beside them.")
    restart_max_s: float = Field(
        10.0, gt=0, description="Longest pause before a failed learner is started again, in seconds."
    )
    standstill_s: float = Field(
        60.0,
        gt=0,
        description="Seconds without progress, while feedback waits, after which `/readyz`, the status of the model, the log and a metric say "
        "that learning stands still.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read nothing but the arguments: the sources are merged before (sources.py)."""
        return (init_settings,)

    @field_validator("store")
    @classmethod
    def _driver_is_installed(cls, store: str | None) -> str | None:
        found = POSTGRES_URL.match(store or "")
        if found and find_spec(found["driver"] or "psycopg") is None:
            raise ValueError(
                f"the driver {found['driver'] or 'psycopg'!r} for Postgres is not installed: "
                "pip install 'online[postgres]', and begin the URL with postgresql+psycopg://"
            )
        return store

    @field_validator("models")
    @classmethod
    def _names_are_unique(cls, models: tuple[ModelSettings, ...]) -> tuple[ModelSettings, ...]:
        names = [model.name for model in models]
        if not names:
            raise ValueError("declare at least one [[models]] table")
        if len(set(names)) < len(names):
            raise ValueError(f"two models share a name: {', '.join(sorted(names))}")
        return models

    @field_validator("own_models")
    @classmethod
    def _shares_are_possible(cls, parts: tuple[str, ...]) -> tuple[str, ...]:
        for part in parts:
            if (share := SHARE.fullmatch(part)) and not 1 <= int(share[1]) <= int(share[2]):
                raise ValueError(
                    f"{part!r} is no share of the models; the shares of three replicas are 1/3, 2/3 and 3/3"
                )
        return parts

    @field_validator("trusted_proxies")
    @classmethod
    def _proxies_are_networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                ip_network(proxy, strict=False)
            except ValueError:
                raise ValueError(f"{proxy!r} is neither an address nor a network such as 10.0.0.0/8") from None
        return proxies

    @model_validator(mode="after")
    def _identities_come_from_trusted_proxies(self) -> Self:
        if self.identity_header is not None and not self.trusted_proxies:
            raise ValueError("identity_header needs trusted_proxies: only they may name a user")
        return self

    @model_validator(mode="after")
    def _paired_settings_are_set_together(self) -> Self:
        check_pairs(self, ("tls_certificate", "tls_key"))
        return self

    def select_own(self) -> Self:
        """Return the settings with the models that `own_models` names, as the service that owns only these. Raises ValueError."""
        if not self.own_models:
            return self
        own = [model for model in self.models if any(owns(part, model.name) for part in self.own_models)]
        if not own:
            raise ValueError(f"own_models names none of the models: {', '.join(self.own_models)}")
        return self.model_copy(update={"models": tuple(own), "own_models": ()})

    @property
    def store_url(self) -> str:
        """The URL for SQLAlchemy. Without a named driver, Postgres is reached through psycopg."""
        if self.store is None:
            return f"sqlite:///{self.state.resolve() / 'online.db'}"
        found = POSTGRES_URL.match(self.store)
        return f"postgresql+psycopg://{self.store[found.end() :]}" if found and not found["driver"] else self.store

    def part(self, kind: type[Part]) -> Part:
        """Return the settings of a plugin, by the class that it contributes."""
        return self if isinstance(self, kind) else kind()

    def model(self, name: str) -> ModelSettings | None:
        """Return the settings of a model; None if it is not configured."""
        return next((model for model in self.models if model.name == name), None)

    def dump_with_secrets(self) -> str:
        """Return JSON with the secrets in clear, for the standard input of a child process. Never log it."""
        return self.model_dump_json(context=REVEAL_SECRETS)


def owns(part: str, model: str) -> bool:
    """Return whether an entry of `own_models` names a model: its name, a pattern such as topic-*, or a share such as 1/3."""
    if share := SHARE.fullmatch(part):
        digest = hashlib.sha256(model.encode()).digest()
        return int.from_bytes(digest[:8]) % int(share[2]) == int(share[1]) - 1
    return fnmatchcase(model, part)


def with_plugins(core: type[ServiceSettings]) -> type[ServiceSettings]:
    """Return the class of all settings: those of the core, and those that plugins contribute."""
    parts = tuple(collect("settings"))
    return create_model("Settings", __base__=(*parts, core)) if parts else core


if TYPE_CHECKING:
    Settings = ServiceSettings
else:
    Settings = with_plugins(ServiceSettings)
