"""A client in Python, synchronous and asynchronous from one source. Needs httpx alone, and that only once it is used.

    Plans.predict(...)  --Send, Pause-->  Client (httpx.Client) or AsyncClient (httpx.AsyncClient)
          ^                                        |
          +---------------- Got -------------------+    what it returns is the result

A plan says what to send, what to do about what comes back, and when to try again; it is a generator, so it knows nothing
of how to wait. Both clients only carry plans out.
"""

import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    NotRequired,
    ParamSpec,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
)
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")
Http = TypeVar("Http")

RETRIES = 5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
AGAIN = (429, 502, 503)  # too many, or nobody there just now: nothing was changed
LONGEST_WAIT_MS = 20_000  # one request waits for an offset no longer; the next one goes on waiting
NOT_LEARNED = 504
ANSWER_S = 10.0  # what an answer may take beside the waiting


class ClientError(Exception):
    """The service refused a request. `status` is the HTTP status, the text is the service's own."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Said(TypedDict):
    """What may be said beside feedback. id: an idempotency key of yours; there is one in any case."""

    id: NotRequired[str]
    user: NotRequired[str]
    reason: NotRequired[str]
    comment: NotRequired[str]


# what comes back


class ReplyRef(TypedDict):
    id: str
    text: str


class RankedReply(ReplyRef):
    score: float


class Prediction(TypedDict):
    """Of a ranker: reply to abstained. Of what learns labels: label and probabilities. Of a regressor: value, low, high."""

    reply: NotRequired[ReplyRef | None]
    score: NotRequired[float]
    propensity: NotRequired[float]
    candidates: NotRequired[list[RankedReply]]
    abstained: NotRequired[bool]
    label: NotRequired[str | None]
    probabilities: NotRequired[dict[str, float]]
    value: NotRequired[float | None]
    low: NotRequired[float | None]
    high: NotRequired[float | None]


class Predicted(TypedDict):
    predictions: list[Prediction]
    prediction_ids: list[str]
    feedback_urls: list[str]
    model_version: str
    learned_until: int


class Receipt(TypedDict):
    """offset: a version that has learned until there has learned it."""

    id: str
    offset: int
    status: str


class Fate(Receipt):
    version: NotRequired[str]
    reason: NotRequired[str]
    freshness_ms: NotRequired[float]


class Erased(TypedDict):
    feedback: int
    predictions: int
    offset: int


class Status(TypedDict):
    """What is served. head: the last offset of the log. encoder, adaptation: of a model that reads texts."""

    name: str
    kind: str
    model_version_status: list[Json]
    learned_until: int
    head: int
    weights_sha256: str
    encoder: NotRequired[str]
    adaptation: NotRequired[Json | None]


class Version(TypedDict):
    version: str
    parent: str | None
    learned_until: int
    created_at: str
    state_sha256: str
    weights_sha256: str
    feature_epoch: str
    durable: bool
    metrics: dict[str, float]
    live: bool


class RolledBack(TypedDict):
    version: str
    learned_until: int


class Reply(ReplyRef):
    active: bool
    offset: int


class Label(TypedDict):
    label: str
    active: bool
    offset: int


# how a plan speaks to who carries it out


@dataclass(frozen=True, slots=True)
class Send:
    method: str
    path: str
    body: Json | None = None
    timeout_s: float | None = None  # None: the client's own


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Got:
    """What came back, or the failure that kept it from coming. sent: the service may have seen the request."""

    status: int = 0
    content: bytes = b""
    retry_after: str | None = None
    failure: Exception | None = None
    sent: bool = True


Plan = Generator[Send | Pause, Got, T]


class Plans:
    """What can be asked of one model of one service. Each raises ClientError where the service refuses."""

    def __init__(self, model: str, user: str | None, retries: int) -> None:
        self.root, self.user, self.retries = f"/v1/models/{quote(model)}", user, retries

    def predict(
        self,
        instances: Sequence[Any],
        min_offset: int | None = None,
        timeout_ms: int = 2_000,
        record: bool = True,
        conversation: str | None = None,
        besides: Sequence[str] = (),
    ) -> Plan[Predicted]:
        """Answer instances. min_offset: only with a version that has learned this offset."""
        body: Json = {"instances": list(instances), "record": record, "timeout_ms": timeout_ms}
        told = {"user": self.user, "min_offset": min_offset, "conversation": conversation, "besides": list(besides)}
        body |= {name: value for name, value in told.items() if value not in (None, [])}
        predicted: Predicted = yield from self._call("POST", ":predict", body)
        return predicted

    def reward(self, /, prediction_id: str, reward: float, **more: Unpack[Said]) -> Plan[Receipt]:
        """How good the answer was, in [0, 1]."""
        return (yield from self.feedback([{"prediction_id": prediction_id, "reward": reward, **more}]))[0]

    def teach(self, /, prediction_id: str, correction: str, **more: Unpack[Said]) -> Plan[Receipt]:
        """The reply it should have given; new text is a new reply."""
        return (yield from self.feedback([{"prediction_id": prediction_id, "correction": correction, **more}]))[0]

    def label(self, /, prediction_id: str, label: str | float, **more: Unpack[Said]) -> Plan[Receipt]:
        """The right label, or for a regressor the right number."""
        return (yield from self.feedback([{"prediction_id": prediction_id, "label": label, **more}]))[0]

    def feedback(self, items: Sequence[Mapping[str, Any]]) -> Plan[list[Receipt]]:
        """All or nothing. Every item gets an id before it is sent, so that sending it again has no second effect."""
        user = {"user": self.user} if self.user else {}
        named = [{"id": uuid.uuid4().hex, **user, **item} for item in items]
        receipts: list[Receipt] = (yield from self._call("POST", ":feedback", {"feedback": named}))["receipts"]
        return receipts

    def fate(self, feedback_id: str) -> Plan[Fate]:
        """What became of feedback."""
        fate: Fate = yield from self._call("GET", f"/feedback/{quote(feedback_id, safe='')}")
        return fate

    def retract(self, feedback_id: str) -> Plan[Receipt]:
        """Take feedback back; it is un-learned exactly."""
        receipt: Receipt = yield from self._call("DELETE", f"/feedback/{quote(feedback_id, safe='')}")
        return receipt

    def erase(self, user: str) -> Plan[Erased]:
        """Un-learn everything a user said, and blank their name and words. Gives how much that was, and the offset."""
        erased: Erased = yield from self._call("DELETE", f"/users/{quote(user, safe='')}")
        return erased

    def wait_until_learned(self, offset: int, timeout_s: float = 10.0) -> Plan[Status]:
        """The status of a version that has learned `offset`, once there is one. Raises TimeoutError."""
        end = time.monotonic() + timeout_s
        while True:
            wait_ms = min(max(int(1_000 * (end - time.monotonic())), 0), LONGEST_WAIT_MS)
            asked = urlencode({"min_offset": offset, "timeout_ms": wait_ms})
            try:
                status: Status = yield from self._call("GET", f"?{asked}", timeout_s=wait_ms / 1_000 + ANSWER_S)
                return status
            except ClientError as error:
                if error.status != NOT_LEARNED:
                    raise
            if time.monotonic() >= end:
                raise TimeoutError(f"offset {offset} is not learned after {timeout_s} s")

    def status(self) -> Plan[Status]:
        status: Status = yield from self._call("GET", "")
        return status

    def versions(self) -> Plan[list[Version]]:
        """Those that are kept, the newest first."""
        listed: list[Version] = (yield from self._call("GET", "/versions"))["versions"]
        return listed

    def roll_back(self, version: str | int) -> Plan[RolledBack]:
        """Make an older version live."""
        back: RolledBack = yield from self._call("POST", ":rollback", {"version": version})
        return back

    def replies(self) -> Plan[list[Reply]]:
        """A ranker's repertoire, retired ones too."""
        listed: list[Reply] = (yield from self._call("GET", "/replies"))["replies"]
        return listed

    def add_reply(self, text: str, examples: Sequence[str] = (), id: str | None = None) -> Plan[Reply]:
        """Add a reply with example questions; one that was retired comes back."""
        body: Json = {"text": text, "examples": list(examples)} | ({"id": id} if id else {})
        added: Reply = yield from self._call("POST", "/replies", body, again=False)
        return added

    def retire_reply(self, id: str) -> Plan[Receipt]:
        """Stop giving a reply."""
        receipt: Receipt = yield from self._call("DELETE", f"/replies/{quote(id, safe='')}")
        return receipt

    def labels(self) -> Plan[list[Label]]:
        """The labels it was told, retired ones too."""
        listed: list[Label] = (yield from self._call("GET", "/labels"))["labels"]
        return listed

    def retire_label(self, label: str) -> Plan[Receipt]:
        """Stop giving a label until it is restored."""
        receipt: Receipt = yield from self._call("DELETE", f"/labels/{quote(label, safe='')}")
        return receipt

    def restore_label(self, label: str) -> Plan[Receipt]:
        """Give a retired label again, as if it had never been away."""
        receipt: Receipt = yield from self._call("PUT", f"/labels/{quote(label, safe='')}")
        return receipt

    def _call(
        self, method: str, path: str, body: Json | None = None, again: bool = True, timeout_s: float | None = None
    ) -> Plan[Any]:
        """The answer's JSON. again: sending it twice does no harm, so it may be tried again whatever was seen of it."""
        for attempt in range(self.retries + 1):
            got = yield Send(method, self.root + path, body, timeout_s)
            if got.failure is None and got.status not in AGAIN:
                break
            if attempt == self.retries or (got.failure is not None and got.sent and not again):
                break
            yield Pause(pause_s(attempt, got.retry_after))
        return content_of(got)


def pause_s(attempt: int, retry_after: str | None) -> float:
    """Twice as long each time, or as long as the service says."""
    told = float(retry_after) if retry_after and retry_after.isdigit() else FIRST_PAUSE_S * 2**attempt
    return min(told, LONGEST_PAUSE_S)


def content_of(got: Got) -> Any:
    if got.failure is not None:
        raise got.failure
    try:
        content = json.loads(got.content)
    except ValueError:  # not of the service, but of something before it
        refuse(got, got.content[:200].decode(errors="replace"))
    if got.status >= 400:
        refuse(got, content.get("error", "") if isinstance(content, dict) else "")
    return content


def refuse(got: Got, text: str) -> NoReturn:
    raise ClientError(got.status, text or f"the service answered {got.status}")


class Listening:
    """Server-sent events out of lines. A service that has nothing to tell sends a comment now and then."""

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s, self.told_at, self.name = timeout_s, time.monotonic(), ""

    def heard(self, line: str) -> tuple[str, Json] | None:
        if line.startswith("event: "):
            self.name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            self.told_at = time.monotonic()
            return self.name, json.loads(line.removeprefix("data: "))
        return None

    @property
    def over(self) -> bool:
        return self.timeout_s is not None and time.monotonic() - self.told_at > self.timeout_s


# who carries plans out


class Talk(Generic[Http]):
    """What both clients are made of. user: whose words the predictions and the feedback are."""

    _http: Http

    def __init__(
        self, url: str, model: str, user: str | None = None, timeout_s: float = 30.0, retries: int = RETRIES
    ) -> None:
        self.model = model
        self._plans = Plans(model, user, retries)
        self._http = self._open(url, timeout_s)

    @property
    def user(self) -> str | None:
        return self._plans.user

    @user.setter
    def user(self, user: str | None) -> None:
        self._plans.user = user

    def _open(self, url: str, timeout_s: float) -> Http:
        raise NotImplementedError

    def _listen(self, timeout_s: float | None) -> Json:
        return {"method": "GET", "url": f"{self._plans.root}/events", "timeout": timeout_s}


def request_of(send: Send) -> Json:
    own = {} if send.timeout_s is None else {"timeout": send.timeout_s}
    return {"method": send.method, "url": send.path, "json": send.body, **own}


def got(response: "httpx.Response") -> Got:
    return Got(response.status_code, response.content, response.headers.get("retry-after"))


def failed(error: "httpx.TransportError") -> Got:
    import httpx

    never_left = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    return Got(failure=error, sent=not never_left)


def sync(plan: Callable[Concatenate[Plans, P], Plan[T]]) -> Callable[Concatenate["Client", P], T]:
    """The method of Client that carries a plan out."""

    @wraps(plan)
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._carry_out(plan(self._plans, *args, **kwargs))

    return method


def asynchronous(
    plan: Callable[Concatenate[Plans, P], Plan[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    """The method of AsyncClient that carries a plan out."""

    @wraps(plan)
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._carry_out(plan(self._plans, *args, **kwargs))

    return method


class Client(Talk["httpx.Client"]):
    """Talks to one model of one service.

    >>> with Client("http://127.0.0.1:8000", "chat") as bot:
    ...     asked = bot.predict(["When are you open?"])
    ...     bot.reward(asked["prediction_ids"][0], 1.0)
    """

    predict = sync(Plans.predict)
    reward = sync(Plans.reward)
    teach = sync(Plans.teach)
    label = sync(Plans.label)
    feedback = sync(Plans.feedback)
    fate = sync(Plans.fate)
    retract = sync(Plans.retract)
    erase = sync(Plans.erase)
    wait_until_learned = sync(Plans.wait_until_learned)
    status = sync(Plans.status)
    versions = sync(Plans.versions)
    roll_back = sync(Plans.roll_back)
    replies = sync(Plans.replies)
    add_reply = sync(Plans.add_reply)
    retire_reply = sync(Plans.retire_reply)
    labels = sync(Plans.labels)
    retire_label = sync(Plans.retire_label)
    restore_label = sync(Plans.restore_label)

    def events(self, timeout_s: float | None = None) -> Iterator[tuple[str, Json]]:
        """(name, data) as it happens; ends after `timeout_s` seconds without any."""
        import httpx

        listening = Listening(timeout_s)
        with suppress(httpx.ReadTimeout), self._http.stream(**self._listen(timeout_s)) as response:
            for line in response.iter_lines():
                if told := listening.heard(line):
                    yield told
                if listening.over:
                    return

    def _carry_out(self, plan: Plan[T]) -> T:
        step = next(plan)
        while True:
            try:
                step = plan.send(self._do(step))
            except StopIteration as end:
                result: T = end.value
                return result

    def _do(self, step: Send | Pause) -> Got:
        import httpx

        if isinstance(step, Pause):  # for a service that is away there is no fact to wait for but its next answer
            time.sleep(step.seconds)
            return Got()
        try:
            return got(self._http.request(**request_of(step)))
        except httpx.TransportError as error:
            return failed(error)

    def _open(self, url: str, timeout_s: float) -> "httpx.Client":
        import httpx

        return httpx.Client(base_url=url, timeout=timeout_s)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(Talk["httpx.AsyncClient"]):
    """The same for asyncio.

    >>> async with AsyncClient("http://127.0.0.1:8000", "chat") as bot:
    ...     asked = await bot.predict(["When are you open?"])
    """

    predict = asynchronous(Plans.predict)
    reward = asynchronous(Plans.reward)
    teach = asynchronous(Plans.teach)
    label = asynchronous(Plans.label)
    feedback = asynchronous(Plans.feedback)
    fate = asynchronous(Plans.fate)
    retract = asynchronous(Plans.retract)
    erase = asynchronous(Plans.erase)
    wait_until_learned = asynchronous(Plans.wait_until_learned)
    status = asynchronous(Plans.status)
    versions = asynchronous(Plans.versions)
    roll_back = asynchronous(Plans.roll_back)
    replies = asynchronous(Plans.replies)
    add_reply = asynchronous(Plans.add_reply)
    retire_reply = asynchronous(Plans.retire_reply)
    labels = asynchronous(Plans.labels)
    retire_label = asynchronous(Plans.retire_label)
    restore_label = asynchronous(Plans.restore_label)

    async def events(self, timeout_s: float | None = None) -> AsyncIterator[tuple[str, Json]]:
        """(name, data) as it happens; ends after `timeout_s` seconds without any."""
        import httpx

        listening = Listening(timeout_s)
        with suppress(httpx.ReadTimeout):
            async with self._http.stream(**self._listen(timeout_s)) as response:
                async for line in response.aiter_lines():
                    if told := listening.heard(line):
                        yield told
                    if listening.over:
                        return

    async def _carry_out(self, plan: Plan[T]) -> T:
        step = next(plan)
        while True:
            try:
                step = plan.send(await self._do(step))
            except StopIteration as end:
                result: T = end.value
                return result

    async def _do(self, step: Send | Pause) -> Got:
        import httpx

        if isinstance(step, Pause):
            import asyncio  # there already where this runs; elsewhere nobody pays for it

            await asyncio.sleep(step.seconds)
            return Got()
        try:
            return got(await self._http.request(**request_of(step)))
        except httpx.TransportError as error:
            return failed(error)

    def _open(self, url: str, timeout_s: float) -> "httpx.AsyncClient":
        import httpx

        return httpx.AsyncClient(base_url=url, timeout=timeout_s)

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
