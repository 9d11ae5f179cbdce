"""Completes chats by routes: predicts which one, asks it, and falls back to the next best.

    request --facts--> predictor --a route, its propensity--> RouteClient --answer or stream--> the caller
                           ^                                       |
                           +---- without the route that failed ----+          outcome --> log (outcomes.py)

The id of the completion is the prediction_id of the route that answered. A route that fails is the operator's concern: the failure is
counted and logged, and nothing is learned about the quality of its answers. Where a stream has begun there is no falling back.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import httpx
import orjson
from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from online.api.responses import answer_headers, create_feedback_urls, json_response
from online.plugins.openai.chat_requests import ID_PREFIX, ReceivedChat
from online.plugins.openai.completers import ChatCompleter
from online.plugins.openai.messages import add_message
from online.plugins.router.accounting import RouteAccounts
from online.plugins.router.chat_requests import RoutedRequest, read_request
from online.plugins.router.chosen_routes import (
    ChosenRoute,
    HeldRoutes,
    NoRouteAnswers,
    describe_choice,
    find_cheapest,
    is_available,
)
from online.plugins.router.clients import create_clients, read_keys, read_routes
from online.plugins.router.metrics import RouteMetrics
from online.plugins.router.upstream import AnswerStream, RouteClient, UpstreamFailure, create_http
from online.schemas.access.callers import Caller
from online.schemas.predict import PredictRequest
from online.serving.model_runtime import ModelRuntime
from online.serving.parts import Work
from online.serving.predictor import PredictionResult

SSE_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class RoutedChat(ChatCompleter):
    """The routes of one model, while it is served."""

    def __init__(self, model: ModelRuntime, metrics: RouteMetrics) -> None:
        """Read the routes. Raises SetupError for routes that cannot be used."""
        self.model, self.name = model, model.spec.name
        self.routes = read_routes(model.spec.name, model.spec.routes)
        self._keys = read_keys(model.spec.name, self.routes)
        self.held, self.accounting = HeldRoutes(), RouteAccounts(model, metrics)
        self.clients: dict[str, RouteClient] = {}
        self._http: httpx.AsyncClient | None = None
        self._ending = list[RelayedStream]()

    async def start(self) -> None:
        """Create the clients of the routes. Raises SetupError."""
        self._http = create_http()
        self.clients = create_clients(self.name, self.routes, self._keys, self._http)

    def background(self, is_primary: bool) -> list[Work]:
        """Return the recording of outcomes."""
        return [self.accounting.outcomes.run()]

    async def close(self) -> None:
        """Record what is left, and close the connections."""
        await asyncio.gather(*(each.wait_closed() for each in self._ending), return_exceptions=True)
        await self.accounting.outcomes.close()
        if self._http is not None:
            await self._http.aclose()

    # answering

    async def complete(self, request: Request, chat: ReceivedChat, caller: Caller) -> Response:
        """Return the completion by the best route that answers. Raises NoRouteAnswers, and what predicting raises."""
        asked = read_request(chat, self.model.predictor.settings.max_text_chars)
        failures: dict[str, str] = {}
        while True:
            chosen = await self._choose(asked, caller, failures)
            try:
                if chat.parsed.stream:
                    stream = await chosen.client.open_stream(asked.body)
                    return await self._relay(request, asked, chosen, stream)
                answer = await chosen.client.complete(asked.body)
            except UpstreamFailure as failure:
                self.accounting.note_failure(chosen.route, failure)
                if failure.is_callers:
                    return Response(failure.body or b"{}", failure.status or 400, media_type="application/json")
                failures[chosen.route.name] = failure.kind
                continue
            await self._note_answer(request, asked, chosen)
            took = answer.first_s, answer.seconds
            cost = self.accounting.record(chosen, asked.facts, answer.usage, took, "answered")
            answered = answer.content | {"id": chosen.id, "system_fingerprint": chosen.fingerprint}
            if url := chosen.headers.get("X-Feedback-Url"):
                answered["feedback_url"] = url
            return json_response(answered, headers={**chosen.headers, "X-Cost": f"{cost:.9f}"})

    async def _choose(self, asked: RoutedRequest, caller: Caller, failures: Mapping[str, str]) -> ChosenRoute:
        """Return the route that answers next. Raises NoRouteAnswers."""
        chat, facts = asked.chat, asked.facts
        excluded = [name for name, each in self.clients.items() if name in failures or not is_available(each, facts)]
        left = [each for name, each in self.clients.items() if name not in excluded]
        if not left:
            reason = "no route has answered" if failures else "no route can take this request now"
            raise NoRouteAnswers(reason, failures)
        if chat.task is not None:  # of the page, such as a title: no user asks for it
            client = find_cheapest(left)
            id = f"{ID_PREFIX}task-{self.model.new_id()}"
            return ChosenRoute(client, id, False, self.model.live.current.version, describe_choice(client, 1.0))
        held = self.held.find(asked.conversation) if facts.get("turns") else ""
        user = caller.acts_for(chat.user)
        instance = asked.build_instance(excluded, held, user)
        predicted = await self.model.predictor.predict(
            PredictRequest(instances=[instance], user=user), caller, ID_PREFIX
        )
        return self._read_choice(predicted, left)

    def _read_choice(self, predicted: PredictionResult, left: list[RouteClient]) -> ChosenRoute:
        answer = predicted.answers[0]
        client = self.clients.get(answer.choice or "")
        if client is None:  # of a version that knows other routes than this process
            client = find_cheapest(left)
        is_recorded = bool(predicted.ids) and answer.choice == client.route.name
        id = predicted.ids[0] if is_recorded else f"{ID_PREFIX}unrecorded-{self.model.new_id()}"
        headers = answer_headers(predicted) | describe_choice(client, answer.propensity)
        return ChosenRoute(client, id, is_recorded, predicted.served.version, headers)

    async def _note_answer(self, request: Request, asked: RoutedRequest, chosen: ChosenRoute) -> None:
        """Note who answers the conversation, and in which message of the page."""
        if asked.chat.task is None:
            self.held.note(asked.conversation, chosen.route.name)
        if chosen.is_recorded:
            name, id, message_id = self.name, chosen.id, asked.chat.message_id
            if message_id is not None:
                await self.model.transactions.write(lambda connection: add_message(connection, name, id, message_id))
            for url in create_feedback_urls(request, name, [id]):
                chosen.headers["X-Feedback-Url"] = url

    async def _relay(
        self, request: Request, asked: RoutedRequest, chosen: ChosenRoute, stream: AnswerStream
    ) -> Response:
        """Return a response that passes a stream on."""
        try:
            await self._note_answer(request, asked, chosen)
        except BaseException:
            await stream.aclose()
            raise
        relayed = RelayedStream(self.accounting, asked, chosen, stream)
        self._ending.append(relayed)
        relayed.on_end = self._ending.remove
        return relayed


class RelayedStream(StreamingResponse):
    """A streamed answer of a route, passed on event by event under the id of the prediction.

    However the caller leaves, also before the first event, the connection is closed and the cost recorded. on_end: called then.
    """

    def __init__(
        self, accounts: RouteAccounts, asked: RoutedRequest, chosen: ChosenRoute, stream: AnswerStream
    ) -> None:
        headers = {**chosen.headers, **SSE_HEADERS}
        super().__init__(self._list_events(), media_type="text/event-stream", headers=headers)
        self.accounts, self.asked, self.chosen, self.stream = accounts, asked, chosen, stream
        self.on_end: Callable[[RelayedStream], None] = lambda relayed: None
        self._end = "cut"
        self._closing: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        try:
            await super().__call__(scope, receive, send)
        finally:  # a cancelled task may not wait: the connection is closed by a task of its own
            stream = self.stream
            self.accounts.record(
                self.chosen, self.asked.facts, stream.usage, (stream.first_s, stream.seconds), self._end
            )
            self._closing = asyncio.get_running_loop().create_task(stream.aclose())
            self._closing.add_done_callback(lambda task: self.on_end(self))

    async def wait_closed(self) -> None:
        """Wait until the connection is closed, if the answer has ended."""
        if self._closing is not None:
            await self._closing

    async def _list_events(self) -> AsyncIterator[bytes]:
        """Yield the events of the stream as they come."""
        own = {"id": self.chosen.id, "system_fingerprint": self.chosen.fingerprint}
        url = self.chosen.headers.get("X-Feedback-Url")
        options = self.asked.chat.parsed.stream_options
        with_usage = bool(options and options.include_usage)
        try:
            async for event in self.stream:
                if event.content is None:
                    continue
                if not with_usage and not event.content.get("choices"):
                    continue  # the usage, which the caller has not asked for
                content = event.content | own
                if url:
                    content, url = content | {"feedback_url": url}, None
                if not with_usage:
                    content.pop("usage", None)
                yield b"data: " + orjson.dumps(content) + b"\n\n"
            self._end = "answered"
            yield b"data: [DONE]\n\n"
        except UpstreamFailure as failure:
            self.accounts.note_failure(self.chosen.route, failure)
            words = f"the answer of the route {self.chosen.route.name!r} ended too early ({failure.kind})"
            error = {"message": words, "type": "upstream_error", "param": None, "code": failure.kind}
            yield b"data: " + orjson.dumps({"error": error}) + b"\n\n"
