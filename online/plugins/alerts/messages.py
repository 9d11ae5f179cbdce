"""The message to a webhook: the body, its signature, and the request.

POST URL
X-Online-Event-Id: 3f2a...          the same when it is sent again
X-Online-Signature: t=1700000000,v1=HMAC-SHA256 of "1700000000." and the body, in hex, with alert_secret
{"id": ..., "event": "verdict", "model": "chat", "at": ..., "sentence": ..., "figures": {...}, "link": ..., "text": ...}
"""

import asyncio
import hashlib
import hmac
import time
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import httpx
import orjson

from online.plugins.alerts.observations import Observation
from online.schemas.json_values import JSONObject

TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 2_000
SHOWN_CHARS = 300
SIGNATURE, EVENT_ID = "X-Online-Signature", "X-Online-Event-Id"


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook. Its URL may hold a secret, so that only `id` and `name` are stored, logged and shown."""

    url: str

    @property
    def id(self) -> str:
        """The digest of its URL."""
        return hashlib.sha256(self.url.encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """The address without what may be secret."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{'/…' if parts.path.strip('/') else ''}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one request. status: None without an answer. error: None if it was accepted. answer: its beginning."""

    status: int | None
    error: str | None
    answer: str
    duration_ms: float


def build_body(id: str, at: str, observation: Observation, public_url: str | None) -> dict[str, object]:
    """Return the JSON of an alert, with a link to the page and the text that chat services show."""
    link = build_link(observation.model, public_url)
    subject = observation.model or "The service"
    return {
        "id": id,
        "event": observation.event,
        "model": observation.model or None,
        "at": at,
        "sentence": observation.sentence,
        "figures": dict(observation.figures),
        "link": link,
        "text": f"{subject}: {observation.sentence}{f' {link}' if link else ''}",
    }


def build_link(model: str, public_url: str | None) -> str | None:
    """Return the URL of the page that shows an alert; None without a public URL."""
    if public_url is None:
        return None
    return f"{public_url.rstrip('/')}/learning{f'?model={quote(model)}' if model else ''}"


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header. The time is signed with the body, so that a receiver can refuse what is old."""
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"t={timestamp},v1={digest.hexdigest()}"


def create_client() -> httpx.AsyncClient:
    """Create the HTTP client: no redirects, so that a secret goes nowhere else."""
    return httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)


async def send(client: httpx.AsyncClient, endpoint: Webhook, id: str, body: bytes, secret: str | None) -> Attempt:
    """Send one alert. It never raises, and ends after `TIMEOUT_S`."""
    headers = {"Content-Type": "application/json", "User-Agent": "online", EVENT_ID: id}
    if secret is not None:
        headers[SIGNATURE] = sign(secret, int(time.time()), body)
    began, status, answer = time.monotonic(), None, ""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            async with client.stream("POST", endpoint.url, content=body, headers=headers) as response:
                status = response.status_code
                answer = await read_beginning(response)
        error = None if response.is_success else explain_status(response)
    except TimeoutError:
        error = f"no complete answer within {TIMEOUT_S:g} s"
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as failure:  # its text could name the URL
        error = f"no answer: {type(failure).__name__}"
    return Attempt(status, error, answer, round(1_000 * (time.monotonic() - began), 1))


async def read_beginning(response: httpx.Response) -> str:
    """Return the first characters of an answer."""
    received = b""
    async for chunk in response.aiter_bytes(MAX_ANSWER_BYTES):
        received += chunk
        if len(received) >= MAX_ANSWER_BYTES:
            break
    return received[:MAX_ANSWER_BYTES].decode("utf-8", "replace")[:SHOWN_CHARS]


def explain_status(response: httpx.Response) -> str:
    """Return the reason of a status that is no success."""
    if response.is_redirect:
        return f"status {response.status_code}: redirects are not followed"
    return f"status {response.status_code}"


def encode(body: JSONObject) -> bytes:
    """Return the bytes that are signed and sent."""
    return orjson.dumps(body)
