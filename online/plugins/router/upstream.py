"""The client of a route: it sends chat completions to a language model behind an OpenAI-compatible endpoint.

    body --the route's model, system prompt and parameters--> POST /chat/completions --> WholeAnswer, or AnswerStream
                                          ^                      |
                                          +--a pause, a retry----+
                                                                 +--> UpstreamFailure: the reason, and whose fault it is

A stream is handed over once its first event with choices has arrived. Until then the request is repeated, or goes to
another route. Fields of the body and of the answer that are not named here pass unchanged.

Connections are aiohttp's, beneath httpx: httpx's default transport takes several times as long per request, and with many open
connections it examines all of them for each request.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isfinite
from types import TracebackType
from typing import Literal, NamedTuple, Self, TypeVar
from urllib.request import getproxies

import aiohttp
import httpx
import orjson
from httpx_aiohttp import AiohttpTransport

from online.errors import BadInput
from online.plugins.router.breaker import AdmittedRequest, Breaker
from online.plugins.router.route_settings import RouteSettings
from online.schemas.json_values import JSON, JSONObject

T = TypeVar("T")
FailureKind = Literal["dead", "slow", "limited", "refused", "malformed", "cut", "busy"]

FIRST_BACKOFF_S = 0.25
LONGEST_BACKOFF_S = 4.0
LONGEST_RETRY_AFTER_S = 5.0  # that is waited for; another route answers sooner than that
TIMER_S = 0.01  # by which a timer of the event loop may be early
DRAIN_S = 0.25  # for the end of a response after [DONE]; its connection is used again then
MAX_ERROR_BYTES = 2**20
MAX_ANSWER_BYTES = 2**25
MAX_EVENT_BYTES = 2**22
MAX_BUFFERED_BYTES = 2**18  # of a response, beyond which nothing more is read from the socket
CHARS_PER_TOKEN = 4
MAX_QUOTED_CHARS = 200  # of the endpoint's own message
MIN_ECHO_CHARS = 12  # of a request in an endpoint's message, from which the message is not repeated

CALLERS_STATUSES = frozenset({400, 413, 422})
PASSING_STATUSES = frozenset({408, 425, 429})  # another attempt may succeed, as for every status from 500
LIMIT_STATUSES = frozenset({429, 529})
DONE = b"[DONE]"
BOM = b"\xef\xbb\xbf"
TEXT_MEMBERS = (  # of messages and of their parts
    *("content", "text", "thinking", "reasoning", "reasoning_content", "refusal"),
    *("tool_calls", "function_call", "function", "arguments"),
)


class UpstreamFailure(Exception):
    """The reason why a route gave no answer. The message contains neither the key nor the contents of the request.

    kind: dead: not reachable, or broken; slow: a time-out; limited: a rate limit; refused: by its status; malformed:
    not a chat completion; cut: it ended too early; busy: too many requests at once. is_callers: whether the request itself
    was refused, with `body`. may_pass: whether another attempt at the same route may succeed.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        is_callers: bool = False,
        body: bytes = b"",
        may_pass: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.message, self.status, self.retry_after_s = message, status, retry_after_s
        self.is_callers, self.body, self.may_pass = is_callers, body, may_pass


class TokenUsage(NamedTuple):
    """The tokens of an answer.

    tokens_in: with the cached ones. is_estimated: whether any was computed from characters.
    """

    tokens_in: int
    tokens_out: int
    tokens_cached: int
    is_estimated: bool


class StreamEvent(NamedTuple):
    """A server-sent event. data: the bytes of its payload. content: the payload, parsed; None for [DONE]."""

    data: bytes
    content: JSONObject | None


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """An answer that has arrived completely. seconds, first_s: to its end and to its headers, with earlier attempts."""

    content: JSONObject
    usage: TokenUsage
    seconds: float
    first_s: float
    attempts: int


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """A request as the route sends it.

    started_at: by the clock. until: by the event loop, when the answer must be complete.
    """

    body: JSONObject
    payload: bytes
    headers: httpx.Headers
    started_at: float
    until: float

    def estimate_tokens(self) -> int:
        """Return about how many tokens the prompt has."""
        return to_tokens(count_prompt_chars(self.body))


class RouteClient:
    """The client of one route.

    breaker: of its endpoint. running: number of requests that are not answered completely.
    """

    def __init__(
        self,
        route: RouteSettings,
        http: httpx.AsyncClient,
        clock: Callable[[], float],
        draw: Callable[[], float],
        key: str | None,
    ) -> None:
        """clock: seconds of a monotonic clock.

        draw: random numbers in [0, 1). Raises BadInput for a URL that cannot be parsed.
        """
        self.route, self.breaker, self.running = route, Breaker(clock), 0
        self.clock = clock
        self._http, self._draw, self._key = http, draw, (key or "").strip()
        try:
            self._url = httpx.URL(f"{route.url}/chat/completions")
        except httpx.InvalidURL:
            raise BadInput(f"route {route.name!r}: the URL {route.url[:200]!r} cannot be parsed; correct url") from None
        self._headers = {accept: self._create_headers(accept) for accept in ("application/json", "text/event-stream")}
        self._extensions = {"timeout": {"connect": route.connect_timeout_s, "read": None, "write": None, "pool": None}}

    async def complete(self, body: JSONObject) -> WholeAnswer:
        """Return the whole answer to a request. Raises UpstreamFailure."""
        self._occupy()
        try:
            return await self._repeat(self._prepare(body, is_streamed=False), self._fetch_whole)
        finally:
            self.running -= 1

    async def open_stream(self, body: JSONObject) -> "AnswerStream":
        """Return the streamed answer to a request, once it has begun.

        Read it to its end, or close it. Raises UpstreamFailure.
        """
        self._occupy()
        try:
            return await self._repeat(self._prepare(body, is_streamed=True), self._fetch_stream)
        except BaseException:  # otherwise the stream gives the place back
            self.running -= 1
            raise

    def next_by(self, request: RouteRequest) -> float:
        """Return when the answer must begin, or go on, by the event loop."""
        next_by = asyncio.get_running_loop().time() + self.route.first_token_timeout_s
        return min(request.until, next_by)

    def create_failure(
        self, kind: FailureKind, reason: str, *, status: int | None = None, may_pass: bool = False
    ) -> UpstreamFailure:
        """Return a failure of this route."""
        return UpstreamFailure(kind, f"route {self.route.name!r}: {reason}", status=status, may_pass=may_pass)

    def describe(self, error: Exception, kind: FailureKind, where: str) -> UpstreamFailure:
        """Return the failure for an error of the connection.

        kind: unless the error says more. where: the part of the answer that is missing. The text of the error is left
        out, because it may have the value of a header.
        """
        name = type(error).__name__
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
            reason = f"cannot connect to {self._url.host} ({name}); check url, and that the endpoint runs"
            return self.create_failure("dead", reason, may_pass=True)
        if isinstance(error, httpx.PoolTimeout):
            return self.create_failure("busy", "all connections are in use; lower max_parallel, or ask later")
        if isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol)):
            return self.create_failure(
                "refused", f"the request cannot be sent ({name}); check url, headers and key_env"
            )
        if isinstance(error, httpx.DecodingError):
            return self.create_failure("malformed", "the answer is not compressed as its headers say", may_pass=True)
        if isinstance(error, (TimeoutError, httpx.TimeoutException)):
            return self.create_failure("slow", f"no {where} in time; raise first_token_timeout_s or timeout_s")
        return self.create_failure(kind, f"the connection ended before the {where} ({name})", may_pass=True)

    def describe_error(
        self, data: bytes, body: JSONObject, status: int | None, headers: Mapping[str, str]
    ) -> UpstreamFailure:
        """Return the failure for an error that the endpoint reports.

        data: JSON, if it is valid. status: None without one.
        """
        words = self._quote(data, body)
        if status is None:
            return self.create_failure("refused", f"the endpoint reports an error{words}", may_pass=True)
        retry_after_s = read_retry_after(headers)
        is_limit = status in LIMIT_STATUSES or (status == 503 and retry_after_s is not None)
        may_pass = status in PASSING_STATUSES or status >= 500
        kind: FailureKind = "limited" if is_limit else "slow" if status == 408 else "dead" if may_pass else "refused"
        is_callers = status in CALLERS_STATUSES
        return UpstreamFailure(
            kind,
            f"route {self.route.name!r}: the endpoint answered with status {status}{self._advise(status)}{words}",
            status=status,
            retry_after_s=retry_after_s,
            is_callers=is_callers,
            body=data if is_callers else b"",
            may_pass=may_pass,
        )

    def _quote(self, data: bytes, body: JSONObject) -> str:
        """Return the endpoint's message after a colon; "" where there is none, or it repeats the key or the request."""
        words = read_words(data)
        secrets = [self._key, *self.route.headers.values()]
        if not words or any(each in words for each in secrets if each) or quotes(words[:MAX_QUOTED_CHARS], body):
            return ""
        return f": {words[:MAX_QUOTED_CHARS]}"

    def _advise(self, status: int) -> str:
        """Return what to do about a status, after a semicolon."""
        if status in (401, 403):
            name = self.route.key_env
            found = "has a key" if self._key else "has none"
            return f"; check key_env: the environment variable {name} {found}" if name else "; set key_env"
        advice = {402: "check the account", 404: "check url and model", 413: "shorten the request"}
        if 300 <= status < 400:
            return "; redirects are not followed: check url"
        if status in LIMIT_STATUSES:
            return "; lower max_parallel, or ask later"
        return f"; {advice[status]}" if status in advice else ""

    def _create_headers(self, accept: str) -> httpx.Headers:
        """Return the headers of each request: bytes, because an error about other characters would contain the key."""
        ours = {
            b"Content-Type": b"application/json",
            b"Accept": accept.encode(),
            b"Accept-Encoding": b"identity",  # compression would hold back parts of a stream
            b"User-Agent": b"online",
            **({b"Authorization": f"Bearer {self._key}".encode()} if self._key else {}),
        }
        headers = httpx.Headers(ours)
        headers.update({name.encode(): value.strip().encode() for name, value in self.route.headers.items()})
        return headers

    def _occupy(self) -> None:
        """Take one of the places for requests. Raises UpstreamFailure where all are taken."""
        if self.running >= self.route.max_parallel:
            most = f"{self.running} requests are running, and max_parallel allows no more"
            raise self.create_failure("busy", f"{most}; raise it, or ask later")
        self.running += 1

    def _prepare(self, body: JSONObject, is_streamed: bool) -> RouteRequest:
        sent = build_body(self.route, body, is_streamed)
        headers = self._headers["text/event-stream" if is_streamed else "application/json"]
        until = asyncio.get_running_loop().time() + self.route.timeout_s
        return RouteRequest(sent, dump_json(sent), headers, self.clock(), until)

    async def _repeat(
        self, request: RouteRequest, attempt: Callable[[RouteRequest, AdmittedRequest, int], Awaitable[T]]
    ) -> T:
        """Return what the first successful attempt returns. Raises UpstreamFailure of the last one."""
        failure: UpstreamFailure | None = None
        for number in range(1, self.route.retries + 2):
            if not self.breaker.admits():
                raise failure or self._refuse_while_open()
            admitted = AdmittedRequest(self.breaker)
            try:
                return await attempt(request, admitted, number)
            except UpstreamFailure as error:
                report(error, admitted)
                pause_s = self._choose_pause(error, number, request)
                if pause_s is None:
                    raise
                failure = error
            except BaseException:  # the caller has gone, which says nothing about the endpoint
                admitted.release()
                raise
            await asyncio.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    def _refuse_while_open(self) -> UpstreamFailure:
        failure = self.create_failure(
            "dead", "its last requests failed, so it gets none for now; see the failures before"
        )
        failure.retry_after_s = self.breaker.wait_s
        return failure

    def _choose_pause(self, failure: UpstreamFailure, number: int, request: RouteRequest) -> float | None:
        """Return seconds before the next attempt; None where there is none."""
        after_s = failure.retry_after_s or 0.0
        if not failure.may_pass or number > self.route.retries or after_s > LONGEST_RETRY_AFTER_S:
            return None
        pause_s = after_s + compute_backoff(number, self._draw()) + TIMER_S
        return pause_s if asyncio.get_running_loop().time() + pause_s < request.until else None

    async def _fetch_whole(self, request: RouteRequest, admitted: AdmittedRequest, number: int) -> WholeAnswer:
        response = await self._send(request, request.until)  # many endpoints send headers with the whole answer only
        first_s = self.clock() - request.started_at
        data = await self._read(response, MAX_ANSWER_BYTES, request.until)
        if len(data) > MAX_ANSWER_BYTES:
            raise self.create_failure(
                "malformed", f"the answer has more than {MAX_ANSWER_BYTES} bytes; lower max_tokens"
            )
        content = parse_object(data)
        choices = None if content is None else content.get("choices")
        if content is None or not isinstance(choices, list) or not choices:
            reason = self._quote(data, request.body) or "; check url, to which /chat/completions is appended"
            raise self.create_failure("malformed", f"the answer is not a chat completion{reason}", may_pass=True)
        admitted.succeed()
        usage = read_usage(find_usage(content), request.estimate_tokens, count_answer_chars(choices, "message"))
        return WholeAnswer(content, usage, self.clock() - request.started_at, first_s, number)

    async def _fetch_stream(self, request: RouteRequest, admitted: AdmittedRequest, number: int) -> "AnswerStream":
        first_by = self.next_by(request)
        response = await self._send(request, first_by)
        stream = AnswerStream(self, request, admitted, response, number)
        await stream.begin(first_by)
        return stream

    async def _send(self, request: RouteRequest, first_by: float) -> httpx.Response:
        """Return the response once its headers are there. Raises UpstreamFailure for an error."""
        sent = httpx.Request(
            "POST", self._url, headers=request.headers, content=request.payload, extensions=self._extensions
        )
        try:
            async with asyncio.timeout_at(first_by):
                response = await self._http.send(sent, stream=True, follow_redirects=False)
        except ValueError:  # of aiohttp, for a header; its text would have the value
            raise self.describe(httpx.LocalProtocolError("a header"), "refused", "answer") from None
        except (httpx.HTTPError, aiohttp.ClientError, OSError) as error:
            raise self.describe(error, "dead", "answer") from None
        if response.is_success:
            return response
        data = await self._read(response, MAX_ERROR_BYTES, first_by, of_error=True)
        raise self.describe_error(data[:MAX_ERROR_BYTES], request.body, response.status_code, response.headers)

    async def _read(self, response: httpx.Response, most: int, until: float, of_error: bool = False) -> bytes:
        """Return the bytes of a response, to the first part beyond `most`, and close it.

        of_error: what there is in time suffices.
        """
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout_at(until):
                async for part in response.aiter_bytes():
                    parts.append(part)
                    size += len(part)
                    if size > most:
                        break
        except (httpx.HTTPError, aiohttp.ClientError, OSError) as error:
            if not of_error:
                raise self.describe(error, "cut", "end of the answer") from None
        finally:
            await response.aclose()
        return b"".join(parts)


class AnswerStream:
    """The events of a streamed answer, as an async iterator: each is given as soon as it is complete.

    first_s: seconds to the first characters, with earlier attempts; until they arrive, to the first event. is_complete:
    whether a finish_reason or [DONE] has arrived. After the end, `usage` and `seconds` are final.
    """

    def __init__(
        self,
        client: RouteClient,
        request: RouteRequest,
        admitted: AdmittedRequest,
        response: httpx.Response,
        number: int,
    ) -> None:
        self.attempts, self.first_s, self.is_complete = number, 0.0, False
        self.finish_reason: str | None = None
        self._client, self._request, self._admitted, self._response = client, request, admitted, response
        self._parts, self._decoder = response.aiter_bytes(), EventDecoder()
        self._ready = deque[StreamEvent]()
        self._failure: UpstreamFailure | None = None
        self._usage: JSONObject | None = None
        self._chars, self._event_count = 0, 0
        self._has_begun = self._is_handed_over = self._is_done = self._is_over = False
        self._seconds: float | None = None

    @property
    def usage(self) -> TokenUsage:
        """The tokens so far."""
        return read_usage(self._usage, self._request.estimate_tokens, self._chars)

    @property
    def seconds(self) -> float:
        """Seconds from the request to the end of the answer, or to this moment, with earlier attempts."""
        return self._elapsed_s() if self._seconds is None else self._seconds

    async def begin(self, first_by: float) -> None:
        """Wait for the first event with choices.

        Raises UpstreamFailure where none arrives; the response is closed then.
        """
        try:
            while not (self._has_begun or self._is_over):
                await self._advance(first_by)
        except BaseException:
            await self._close_response()
            raise
        if not self._has_begun:
            await self._close_response()
            raise self._failure or self._client.create_failure("malformed", "the stream has no choices", may_pass=True)
        self._is_handed_over = True
        if self._is_over:
            self._client.running -= 1
        if self._failure is not None:
            report(self._failure, self._admitted)
        elif self._admitted.is_trial:
            self._admitted.succeed()  # the endpoint works, and other requests wait for the verdict

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        if not self._ready and not self._is_over:
            event_by = self._client.next_by(self._request)
            try:
                while not self._ready and not self._is_over:
                    await self._advance(event_by)
            except BaseException:  # the caller has gone
                await self.aclose()
                raise
        if self._ready:
            return self._ready.popleft()
        if self._is_done:
            await self._drain()
        if self._failure is None:
            raise StopAsyncIteration
        failure, self._failure = self._failure, None
        raise failure

    async def aclose(self) -> None:
        """End the answer here, and close the connection, unless the answer has arrived completely."""
        if not self._is_over:
            self._admitted.release()
            self._end(None)
        self._ready.clear()
        self._failure, self._is_done = None, False
        await self._close_response()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _advance(self, until: float) -> None:
        """Read what arrives next, and note its events."""
        try:
            async with asyncio.timeout_at(until):
                part = await anext(self._parts, None)
            payloads = self._decoder.finish() if part is None else self._decoder.feed(part)
        except EventTooLarge:
            self._fail(self._client.create_failure("malformed", f"an event has more than {MAX_EVENT_BYTES} bytes"))
        except (httpx.HTTPError, aiohttp.ClientError, OSError) as error:
            self._note(self._decoder.finish(), is_last=True)
            self._fail(self._client.describe(error, "cut", "next event" if self._has_begun else "first event"))
        else:
            self._note(payloads, is_last=part is None)
            if part is None:
                self._fail(self._describe_end())
        if self._is_over and not self._is_done:
            await self._close_response()

    def _note(self, payloads: list[bytes], is_last: bool) -> None:
        """Note events. is_last: the connection has ended, so that the last one may be incomplete."""
        for payload in payloads:
            if self._is_over:
                return
            self._event_count += 1
            if payload.strip() == DONE:
                self._ready.append(StreamEvent(payload, None))
                self.is_complete = self._is_done = True
                self._succeed()
            elif (content := parse_object(payload)) is not None:
                self._note_content(payload, content)
            elif not is_last:
                self._fail(self._client.create_failure("malformed", "an event is not a JSON object", may_pass=True))

    def _note_content(self, payload: bytes, content: JSONObject) -> None:
        if content.get("error"):
            self._fail(self._describe_error(payload, content["error"]))
            return
        self._usage = find_usage(content) or self._usage
        choices = content.get("choices")
        if isinstance(choices, list) and choices:
            if not self._has_begun:
                self._has_begun, self.first_s = True, self._elapsed_s()
            chars = count_answer_chars(choices, "delta")
            if chars and not self._chars:
                self.first_s = self._elapsed_s()
            self._chars += chars
            self.finish_reason = find_finish_reason(choices) or self.finish_reason
            self.is_complete = self.is_complete or bool(self.finish_reason)
        self._ready.append(StreamEvent(payload, content))

    def _describe_error(self, payload: bytes, error: JSON) -> UpstreamFailure:
        """Return the failure for an event that reports an error.

        Before the answer begins its code may be a status of HTTP.
        """
        code = error.get("code") if isinstance(error, dict) else None
        status = code if not self._has_begun and isinstance(code, int) and 400 <= code < 600 else None
        failure = self._client.describe_error(payload, self._request.body, status, {})
        if self._has_begun:
            failure.kind = "cut"
        return failure

    def _describe_end(self) -> UpstreamFailure:
        """Return the failure for a stream that ends before its answer is complete."""
        if self._event_count or self._response.headers.get("content-type", "").startswith("text/event-stream"):
            return self._client.create_failure("cut", "the stream ended before the answer was complete", may_pass=True)
        reason = "the answer is not a stream of events; check url, to which /chat/completions is appended"
        return self._client.create_failure("malformed", reason, may_pass=True)

    def _succeed(self) -> None:
        if not self._is_over:
            if self._has_begun:
                self._admitted.succeed()
            self._end(None)

    def _fail(self, failure: UpstreamFailure) -> None:
        """End the answer with a failure; an answer that is complete ends without one."""
        if self.is_complete:
            self._succeed()
        elif not self._is_over:
            if self._is_handed_over:  # before that the client reports it
                report(failure, self._admitted)
            self._end(failure)

    def _end(self, failure: UpstreamFailure | None) -> None:
        self._failure, self._is_over, self._seconds = failure, True, self._elapsed_s()
        if self._is_handed_over:  # before that the client gives the place back
            self._client.running -= 1

    def _elapsed_s(self) -> float:
        return self._client.clock() - self._request.started_at

    async def _drain(self) -> None:
        """Read the end of a response whose answer is complete, so that its connection can be used again."""
        self._is_done = False
        try:
            async with asyncio.timeout(DRAIN_S):
                async for _ in self._parts:
                    pass
        except (httpx.HTTPError, aiohttp.ClientError, OSError):
            pass  # the connection cannot be used again
        finally:
            await self._close_response()

    async def _close_response(self) -> None:
        with suppress(httpx.HTTPError, OSError):
            await self._response.aclose()


class EventTooLarge(Exception):
    """A server-sent event is larger than MAX_EVENT_BYTES."""


class EventDecoder:
    """Decodes server-sent events from bytes that are cut anywhere.

    Fields other than `data`, and comments, are skipped.
    """

    def __init__(self) -> None:
        self._line, self._line_size = list[bytes](), 0  # parts of the line that is not complete
        self._data, self._data_size = list[bytes](), 0  # lines of the event that is not complete
        self._is_first, self._skips_line_feed = True, False

    def feed(self, part: bytes) -> list[bytes]:
        """Return the payloads of the events that these bytes complete. Raises EventTooLarge."""
        if self._skips_line_feed and part:
            self._skips_line_feed = False
            part = part.removeprefix(b"\n")
        payloads = list[bytes]()
        if b"\n" in part or b"\r" in part:
            self._skips_line_feed = part.endswith(b"\r")  # a line feed may follow, but the line is complete without it
            *lines, rest = (b"".join(self._line) + part).splitlines(keepends=True)
            if rest.endswith((b"\n", b"\r")):
                lines, rest = [*lines, rest], b""
            self._line, self._line_size = [], 0
            for line in lines:
                payloads += self._read_line(line.rstrip(b"\r\n"))
            part = rest
        if part:
            self._line.append(part)
            self._line_size += len(part)
        if self._line_size + self._data_size > MAX_EVENT_BYTES:
            raise EventTooLarge
        return payloads

    def finish(self) -> list[bytes]:
        """Return the payload of an event whose blank line is missing at the end of the stream."""
        last, self._line, self._line_size = b"".join(self._line), [], 0
        return [*self._read_line(last), *(self._read_line(b"") if last else ())]

    def _read_line(self, line: bytes) -> list[bytes]:
        """Return the payload that a line completes, if any. Raises EventTooLarge."""
        if self._is_first:
            line, self._is_first = line.removeprefix(BOM), False
        if not line:
            payload = b"\n".join(self._data)
            self._data, self._data_size = [], 0
            return [payload] if payload else []
        if line == b"data" or line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            if self._data_size + len(value) > MAX_EVENT_BYTES:
                raise EventTooLarge
            self._data.append(value)
            self._data_size += len(value) + 1
        return []


def report(failure: UpstreamFailure, admitted: AdmittedRequest) -> None:
    """Report a failure to the breaker. An endpoint that refuses an invalid request works."""
    if failure.is_callers:
        admitted.succeed()
    elif failure.kind == "busy":
        admitted.release()
    else:
        admitted.fail(failure.retry_after_s if failure.kind == "limited" else None)


def compute_backoff(number: int, drawn: float) -> float:
    """Return the seconds before the attempt after this one, 1 for the first: a random share of a time that doubles."""
    return drawn * min(FIRST_BACKOFF_S * 2.0 ** (number - 1), LONGEST_BACKOFF_S)


def build_body(route: RouteSettings, body: JSONObject, is_streamed: bool) -> JSONObject:
    """Return the body that is sent.

    A route whose parameters have `stream_options` decides about them; null leaves them out.
    """
    merged = {**body, **route.parameters, "model": route.model, "stream": is_streamed}
    messages = merged.get("messages")
    if route.system and isinstance(messages, list):
        merged["messages"] = [{"role": "system", "content": route.system}, *messages]
    options = merged.pop("stream_options", None)
    if is_streamed and "stream_options" not in route.parameters:
        options = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    if is_streamed and options is not None:
        merged["stream_options"] = options
    return merged


def dump_json(value: JSONObject) -> bytes:
    """Return the JSON of an object, which may have large numbers and halves of surrogate pairs; orjson refuses both."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()


def parse_object(data: bytes) -> JSONObject | None:
    """Return the JSON object of these bytes; None for anything else."""
    try:
        value = orjson.loads(data)
    except ValueError:
        try:
            value = json.loads(data)  # halves of surrogate pairs, which some endpoints send in events of their own
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an endpoint asks to wait for; None where it does not."""
    milliseconds = parse_seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1_000
    value = headers.get("retry-after")
    seconds = parse_seconds(value)
    if seconds is not None or value is None:
        return seconds
    try:
        return max(0.0, (parsedate_to_datetime(value) - parsedate_to_datetime(headers["date"])).total_seconds())
    except (KeyError, ValueError, TypeError):
        return None


def parse_seconds(value: str | None) -> float | None:
    """Return a number of a header; None for other texts."""
    try:
        seconds = float(value or "")
    except ValueError:
        return None
    return max(0.0, seconds) if isfinite(seconds) else None


def read_words(data: bytes) -> str:
    """Return the message of an error in one of the usual shapes; "" where there is none."""
    content = parse_object(data) or {}
    error = content.get("error") or content
    words = error.get("message") or error.get("detail") if isinstance(error, dict) else error
    return " ".join(words[: 20 * MAX_QUOTED_CHARS].split()) if isinstance(words, str) else ""


def quotes(words: str, body: JSONObject) -> bool:
    """Return whether a message of an endpoint repeats a part of the messages of the request."""
    windows = {words[place : place + MIN_ECHO_CHARS] for place in range(max(len(words) - MIN_ECHO_CHARS, 0) + 1)}
    texts = [" ".join(text.split()) for text in list_texts(body.get("messages"))]
    return any(
        text in words if len(text) < MIN_ECHO_CHARS else any(each in text for each in windows)
        for text in texts
        if len(text) > 3
    )


def list_texts(value: JSON) -> Iterator[str]:
    """Yield the texts of messages, without the names of their roles and parts, and without images."""
    if isinstance(value, list):
        for each in value:
            yield from [each] if isinstance(each, str) else list_texts(each)
    elif isinstance(value, dict):
        for name in TEXT_MEMBERS:
            inner = value.get(name)
            yield from [inner] if isinstance(inner, str) else list_texts(inner)


def count_prompt_chars(body: JSONObject) -> int:
    """Return the characters of the messages and of the tools."""
    tools = body.get("tools")
    return sum(map(len, list_texts(body.get("messages")))) + (len(dump_json({"tools": tools})) if tools else 0)


def count_answer_chars(choices: list[JSON], name: str) -> int:
    """Return the characters of choices: texts, reasoning, and arguments of tools. name: delta or message."""
    count = 0
    for choice in choices:
        inner = choice.get(name) if isinstance(choice, dict) else None
        content = inner.get("content") if isinstance(inner, dict) and len(inner) == 1 else None
        if isinstance(content, str):  # most events have nothing else
            count += len(content)
        elif inner:
            count += sum(map(len, list_texts(inner)))
    return count


def find_finish_reason(choices: list[JSON]) -> str:
    """Return the last reason for which a choice ended; "" where none has ended."""
    reasons = [choice.get("finish_reason") for choice in choices if isinstance(choice, dict)]
    return next((reason for reason in reversed(reasons) if isinstance(reason, str)), "")


def find_usage(content: JSONObject) -> JSONObject | None:
    """Return the usage of an answer or of an event, also where Groq and Moonshot put it."""
    choices = content.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    for holder in (content, content.get("x_groq"), first):
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(usage, dict) and usage:
            return usage
    return None


def read_usage(usage: JSONObject | None, estimate_in: Callable[[], int], chars_out: int) -> TokenUsage:
    """Return the tokens of an answer; numbers that the endpoint does not give, or gives as 0, are estimated."""
    found = usage or {}
    tokens_in = read_count(found, "prompt_tokens", "input_tokens")
    tokens_out = read_count(found, "completion_tokens", "output_tokens")
    total = read_count(found, "total_tokens")
    if tokens_in and tokens_out:  # some vendors count reasoning in the total only
        tokens_out = max(tokens_out, total - tokens_in)
    details = found.get("prompt_tokens_details") or found.get("input_tokens_details")
    cached = read_count(details, "cached_tokens") if isinstance(details, dict) else 0
    cached = cached or read_count(found, "prompt_cache_hit_tokens", "cached_tokens")
    lacks_out = not tokens_out and (chars_out > 0 or "completion_tokens" not in found)
    tokens_out = to_tokens(chars_out) if lacks_out else tokens_out
    is_estimated = lacks_out or not tokens_in
    tokens_in = tokens_in or estimate_in()
    return TokenUsage(tokens_in, tokens_out, min(cached, tokens_in), is_estimated)


def read_count(holder: JSONObject, *names: str) -> int:
    """Return the first of these members that is a positive number; 0 where none is."""
    for name in names:
        value = holder.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e12:
            return int(value)
    return 0


def to_tokens(chars: int) -> int:
    """Return about how many tokens so many characters are."""
    return max(1, round(chars / CHARS_PER_TOKEN))


def create_http(max_connections: int = 4_000, keep_alive_s: float = 30.0) -> httpx.AsyncClient:
    """Return the HTTP client that all routes share. It keeps no cookies, and has no time-outs but those of each request.

    The environment is read for proxies now, and only where it names one for each request, which takes two threads.
    """

    def open_session() -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=max_connections, keepalive_timeout=keep_alive_s, ssl=tls)
        jar = aiohttp.DummyCookieJar()
        return aiohttp.ClientSession(
            connector=connector, cookie_jar=jar, trust_env=has_proxies, read_bufsize=MAX_BUFFERED_BYTES
        )

    tls, has_proxies = httpx.create_ssl_context(), bool(getproxies())
    transport = AiohttpTransport(verify=tls, client=open_session)
    return httpx.AsyncClient(transport=transport, timeout=None, follow_redirects=False)
