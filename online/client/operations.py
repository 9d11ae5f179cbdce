"""The operations on one model of a service: paths, bodies, retries and errors, but no waiting."""

import json
import time
import uuid
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NoReturn, TypeVar, Unpack
from urllib.parse import quote, urlencode

from online.client.types import (
    ClassInfo,
    ErasureResult,
    ErasureStatus,
    ExportedFile,
    FeedbackDetails,
    FeedbackStatus,
    Json,
    ModelStatus,
    PredictResponse,
    Receipt,
    ReplyInfo,
    RollbackResult,
    VersionInfo,
)

T = TypeVar("T")

RETRIES = 5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
RETRYABLE_STATUSES = (429, 502, 503)  # too many requests, or no service just now: nothing was changed
LONGEST_WAIT_MS = 20_000  # one request waits for an offset no longer than this; the next one goes on waiting
NOT_LEARNED_STATUS = 504
EXPORT_S = 300.0  # time for a file that is computed first
ANSWER_S = 10.0  # time for an answer on top of the time the service waits
LONG_WAIT_MS = 20_000  # the client's own timeout is long enough for shorter waits


class ClientError(Exception):
    """The service refused a request. `status` is the HTTP status, the message is the service's own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """timeout_s: None takes the timeout of the client. content: the body, if it is no JSON."""

    method: str
    path: str
    body: Json | None = None
    timeout_s: float | None = None
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait that the client must make before the next attempt."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response, or the failure instead of one. sent: the service may have received the request."""

    status: int = 0
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    failure: Exception | None = None
    sent: bool = True


Operation = Generator[HttpRequest | Pause, HttpResponse, T]


class Operations:
    """The operations on one model. Each raises ClientError if the service refuses it."""

    def __init__(self, model: str, user: str | None, retries: int) -> None:
        self.root, self.user, self.retries = f"/v1/models/{quote(model)}", user, retries

    def predict(
        self,
        instances: Sequence[object],
        min_offset: int | None = None,
        timeout_ms: int = 2_000,
        record: bool = True,
        conversation: str | None = None,
        after: str | None = None,
        exclude: Sequence[str] = (),
        feedback_urls: bool = False,
    ) -> Operation[PredictResponse]:
        """Answer instances.

        min_offset: answer with a version that has learned this offset, waiting up to timeout_ms.
        record: false for a dry run, which takes no feedback. after: the prediction_id of the turn of the conversation that
        the question follows; "" begins it; None: the newest turn. exclude: answers not to give.
        feedback_urls: whether the answer has a signed URL for each prediction, whose holder may rate it.
        """
        body: Json = {"instances": check_list("instances", instances), "record": record, "timeout_ms": timeout_ms}
        optional = {
            "user": self.user,
            "min_offset": min_offset,
            "conversation": conversation,
            "after": after,
            "exclude": check_list("exclude", exclude),
            "feedback_urls": feedback_urls or None,
        }
        body |= {name: value for name, value in optional.items() if value not in (None, [])}
        waits_long = min_offset is not None and timeout_ms > LONG_WAIT_MS
        timeout_s = timeout_ms / 1_000 + ANSWER_S if waits_long else None
        response: PredictResponse = yield from self._call("POST", ":predict", body, timeout_s=timeout_s)
        return response

    def reward(self, /, prediction_id: str, reward: float, **details: Unpack[FeedbackDetails]) -> Operation[Receipt]:
        """Say how good an answer was, from 0 to 1."""
        return (yield from self.feedback([{"prediction_id": prediction_id, "reward": reward, **details}]))[0]

    def teach(self, /, prediction_id: str, correction: str, **details: Unpack[FeedbackDetails]) -> Operation[Receipt]:
        """Give the reply that the answer should have been. A new text becomes a new reply."""
        return (yield from self.feedback([{"prediction_id": prediction_id, "correction": correction, **details}]))[0]

    def label(
        self, /, prediction_id: str, label: str | float, **details: Unpack[FeedbackDetails]
    ) -> Operation[Receipt]:
        """Give the right class, or for a regressor the right number."""
        return (yield from self.feedback([{"prediction_id": prediction_id, "label": label, **details}]))[0]

    def feedback(self, items: Sequence[Mapping[str, object]]) -> Operation[list[Receipt]]:
        """Give several feedback items, all or none.

        Each item gets an id before it is sent, so that sending it again has no second effect.
        """
        user = {"user": self.user} if self.user else {}
        identified = [{"id": uuid.uuid4().hex, **user, **item} for item in check_list("items", items)]
        receipts: list[Receipt] = (yield from self._call("POST", ":feedback", {"feedback": identified}))["receipts"]
        return receipts

    def merge(self, /, sums: bytes, id: str | None = None) -> Operation[Receipt]:
        """Send the file of sums that a device has learned by itself; `retract` subtracts them again.

        id: of the feedback that it becomes; the same file with the same id has no second effect.
        """
        user = {"user": self.user} if self.user else {}
        query = urlencode({"id": id or uuid.uuid4().hex, **user})
        receipt: Receipt = yield from self._call("POST", f":merge?{query}", content=sums)
        return receipt

    def feedback_status(self, feedback_id: str) -> Operation[FeedbackStatus]:
        """Return what became of feedback."""
        status: FeedbackStatus = yield from self._call("GET", f"/feedback/{quote(feedback_id, safe='')}")
        return status

    def retract(self, feedback_id: str) -> Operation[Receipt]:
        """Take feedback back; it is un-learned exactly."""
        receipt: Receipt = yield from self._call("DELETE", f"/feedback/{quote(feedback_id, safe='')}")
        return receipt

    def erase(self, user: str) -> Operation[ErasureResult]:
        """Un-learn all feedback of a user, and blank the user's name and texts."""
        result: ErasureResult = yield from self._call("DELETE", f"/users/{quote(user, safe='')}")
        return result

    def erasure(self, id: str) -> Operation[ErasureStatus]:
        """Return how far an erasure is; its signed statement once it is done."""
        status: ErasureStatus = yield from self._call("GET", f"/v1/erasures/{quote(id, safe='')}", of_model=False)
        return status

    def wait_until_learned(self, offset: int, timeout_s: float = 10.0) -> Operation[ModelStatus]:
        """Wait for a version that has learned `offset`, and return its status. Raises TimeoutError."""
        end = time.monotonic() + timeout_s
        while True:
            wait_ms = min(max(int(1_000 * (end - time.monotonic())), 0), LONGEST_WAIT_MS)
            query = urlencode({"min_offset": offset, "timeout_ms": wait_ms})
            try:
                status: ModelStatus = yield from self._call("GET", f"?{query}", timeout_s=wait_ms / 1_000 + ANSWER_S)
                return status
            except ClientError as error:
                if error.status != NOT_LEARNED_STATUS:
                    raise
            if time.monotonic() >= end:
                raise TimeoutError(f"offset {offset} is not learned after {timeout_s} s")

    def status(self) -> Operation[ModelStatus]:
        """Return the status of the model."""
        status: ModelStatus = yield from self._call("GET", "")
        return status

    def versions(self) -> Operation[list[VersionInfo]]:
        """Return the kept versions, newest first."""
        versions: list[VersionInfo] = (yield from self._call("GET", "/versions"))["versions"]
        return versions

    def export(
        self, version: str | int = "latest", format: str = "onnx", timeout_s: float = EXPORT_S
    ) -> Operation[ExportedFile]:
        """Return a version as a file that answers without the service: onnx, onnx-int8, safetensors, executorch or litert; with
        `learner`, a device goes on learning.

        version: a number or a label. timeout_s: the first export of a version is computed when it is requested.
        """
        return (yield from self._load(version_path(version, "/export"), {"format": format}, timeout_s))

    def export_manifest(
        self, version: str | int = "latest", format: str = "onnx", timeout_s: float = EXPORT_S
    ) -> Operation[Json]:
        """Return what the exported file reads and answers, its sha256, and how near its answers are to the served ones."""
        path = f"{version_path(version, '/export/manifest')}?{urlencode({'format': format})}"
        manifest: Json = yield from self._call("GET", path, timeout_s=timeout_s)
        return manifest

    def delta(
        self,
        since: str | int,
        version: str | int = "latest",
        format: str = "learner",
        timeout_s: float = EXPORT_S,
    ) -> Operation[ExportedFile]:
        """Return what turns the exported file of the version `since` into that of another, with
        `online.plugins.export.file_deltas.apply_delta`. format: learner or safetensors.
        """
        query = {"from": str(since), "format": format}
        return (yield from self._load(version_path(version, "/delta"), query, timeout_s))

    def roll_back(self, version: str | int) -> Operation[RollbackResult]:
        """Make an older version live: a number, a label or `previous`."""
        result: RollbackResult = yield from self._call("POST", ":rollback", {"version": version})
        return result

    def replies(self) -> Operation[list[ReplyInfo]]:
        """Return the repertoire of a ranker, with retired replies."""
        replies: list[ReplyInfo] = (yield from self._call("GET", "/replies"))["replies"]
        return replies

    def add_reply(self, text: str, examples: Sequence[str] = (), id: str | None = None) -> Operation[ReplyInfo]:
        """Add a reply with example questions. A retired reply becomes active again."""
        body: Json = {"text": text, "examples": check_list("examples", examples)} | ({"id": id} if id else {})
        reply: ReplyInfo = yield from self._call("POST", "/replies", body, is_repeatable=False)
        return reply

    def retire_reply(self, id: str) -> Operation[Receipt]:
        """Stop giving a reply."""
        receipt: Receipt = yield from self._call("DELETE", f"/replies/{quote(id, safe='')}")
        return receipt

    def classes(self) -> Operation[list[ClassInfo]]:
        """Return the classes that a classifier has learned, with retired classes."""
        classes: list[ClassInfo] = (yield from self._call("GET", "/classes"))["classes"]
        return classes

    def retire_class(self, name: str) -> Operation[Receipt]:
        """Stop predicting a class until it is restored."""
        receipt: Receipt = yield from self._call("DELETE", f"/classes/{quote(name, safe='')}")
        return receipt

    def restore_class(self, name: str) -> Operation[Receipt]:
        """Predict a retired class again, as if it had never been retired."""
        receipt: Receipt = yield from self._call("PUT", f"/classes/{quote(name, safe='')}")
        return receipt

    def _call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        is_repeatable: bool = True,
        timeout_s: float | None = None,
        of_model: bool = True,
        content: bytes | None = None,
    ) -> Operation[Any]:
        """Send a request until it is answered, and return the JSON of the answer.

        of_model: the path begins after that of the model. is_repeatable: sending it twice does no harm.
        """
        request = HttpRequest(method, self.root + path if of_model else path, body, timeout_s, content)
        return parse_content((yield from self._send(request, is_repeatable)))

    def _load(self, path: str, query: Mapping[str, str], timeout_s: float) -> Operation[ExportedFile]:
        """Return the file with which the service answers."""
        url = f"{self.root}{path}?{urlencode(query)}"
        response = yield from self._send(HttpRequest("GET", url, timeout_s=timeout_s))
        if response.failure is not None or response.status != HTTPStatus.OK:
            parse_content(response)
        return ExportedFile(response.content, response.headers["x-model-version"])

    def _send(self, request: HttpRequest, is_repeatable: bool = True) -> Operation[HttpResponse]:
        """Send a request until it is answered; one that is repeatable also if an earlier one may have arrived."""
        for attempt in range(self.retries + 1):
            response = yield request
            if response.failure is None and response.status not in RETRYABLE_STATUSES:
                break
            if attempt == self.retries or (response.failure is not None and response.sent and not is_repeatable):
                break
            yield Pause(compute_pause(attempt, response.headers.get("retry-after")))
        return response


def version_path(version: str | int, rest: str) -> str:
    """Return the path of a version, by number or label."""
    return f"/versions/{quote(str(version), safe='')}{rest}"


def check_list(name: str, value: Sequence[T]) -> list[T]:
    """Return the value as a list. Raises ValueError for one text, object or number where a list is meant."""
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
        raise ValueError(f"{name} must be a list, not the {type(value).__name__} {value!r:.60}: write [...] around it")
    return list(value)


def compute_pause(attempt: int, retry_after: str | None) -> float:
    """Return seconds before the next attempt: twice as long each time, or as long as the service asks for."""
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else FIRST_PAUSE_S * 2**attempt
    return min(seconds, LONGEST_PAUSE_S)


def parse_content(response: HttpResponse) -> object:
    """Return the JSON of a response.

    Raises ClientError for an error of the service, or the failure itself.
    """
    if response.failure is not None:
        raise response.failure
    try:
        content = json.loads(response.content)
    except ValueError:  # a proxy answered, not the service
        raise_error(response.status, response.content[:200].decode(errors="replace"))
    if response.status >= 400:
        raise_error(response.status, content.get("error", "") if isinstance(content, dict) else "")
    return content


def raise_error(status: int, message: str) -> NoReturn:
    """Raise the ClientError of a response."""
    raise ClientError(status, message or f"the service answered with status {status}")
