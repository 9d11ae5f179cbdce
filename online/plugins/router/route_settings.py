"""The settings of a route: a language model behind an OpenAI-compatible endpoint, its prices and its limits."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from online.errors import BadInput
from online.schemas.json_values import JSONObject
from online.settings.messages import describe

PER_TOKEN = 1e-6  # prices are per million tokens
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}$"

RESERVED = ("settings", "report", "preview")  # paths below /routes


def check_url(url: str) -> str:
    """Return the URL without a slash at its end. Raises ValueError for one that is not http or https."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("http", "https") or not rest.strip("/"):
        raise ValueError(f"{url!r} is not the URL of an endpoint, such as https://api.example.com/v1")
    return url.rstrip("/")


def check_name(name: str) -> str:
    """Return the name. Raises ValueError for one that the API needs for itself."""
    if name in RESERVED:
        raise ValueError(f"{name!r} is reserved; choose another name")
    return name


class RouteSettings(BaseModel):
    """A `[[models.routes]]` table of online.toml, or a route that was added at run time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(pattern=NAME), AfterValidator(check_name)] = Field(
        description="Name of the route."
    )
    url: Annotated[str, AfterValidator(check_url)] = Field(
        description="Base URL of an OpenAI-compatible endpoint; /chat/completions is appended."
    )
    model: str = Field(min_length=1, max_length=200, description="The model that the endpoint is asked for.")
    price_in: float = Field(0.0, ge=0, le=1e6, description="US dollars per million tokens of the prompt.")
    price_out: float = Field(0.0, ge=0, le=1e6, description="US dollars per million tokens of the answer.")
    price_cached: float | None = Field(
        None,
        ge=0,
        le=1e6,
        description="US dollars per million tokens of the prompt that the endpoint has cached. Default: price_in.",
    )
    system: str = Field("", max_length=20_000, description="A system prompt that precedes the messages.")
    parameters: JSONObject = Field(
        default_factory=dict, description="Fields of the request that this route always has, such as temperature."
    )
    key_env: str = Field(
        "",
        max_length=200,
        description="Name of the environment variable that has the key. The key itself is never stored.",
    )
    headers: dict[str, str] = Field(default_factory=dict, description="Further headers of each request.")
    connect_timeout_s: float = Field(5.0, gt=0, le=600, description="Seconds to connect.")
    first_token_timeout_s: float = Field(30.0, gt=0, le=3_600, description="Seconds until the answer begins.")
    timeout_s: float = Field(300.0, gt=0, le=36_000, description="Seconds for the whole answer.")
    retries: int = Field(1, ge=0, le=10, description="Repetitions of a failed request before the next route is tried.")
    max_parallel: int = Field(256, ge=1, le=100_000, description="Requests at once; further ones go to the next route.")
    context_tokens: int = Field(0, ge=0, description="Longest prompt that is sent, in tokens; 0: any.")
    reads_images: bool = Field(True, description="Whether requests with images may go there.")
    calls_tools: bool = Field(True, description="Whether requests with tools may go there.")
    prior: float | None = Field(
        None, ge=0, le=1, description="The share of good answers that is expected before any rating."
    )

    def price(self, tokens_in: int, tokens_out: int, tokens_cached: int = 0) -> float:
        """Return the US dollars of an answer. tokens_in: with the cached ones."""
        cached = self.price_in if self.price_cached is None else self.price_cached
        fresh = max(tokens_in - tokens_cached, 0)
        return PER_TOKEN * (fresh * self.price_in + tokens_cached * cached + tokens_out * self.price_out)


def read_route(table: JSONObject) -> RouteSettings:
    """Return the route that a table describes. Raises BadInput."""
    try:
        return RouteSettings.model_validate(table)
    except ValidationError as error:
        raise BadInput(f"route {str(table.get('name', ''))[:64]!r}: {describe(error)}") from None
