"""Completes chats by routes: predicts which one, asks it, and falls back to the next best.

    request --facts--> predictor --a route, its propensity--> RouteClient --answer or stream--> the caller
                           ^                                       |
                           +---- without the route that failed ----+          outcome --> log (outcomes.py)

The id of the completion is the prediction_id of the route that answered. A route that fails is the operator's concern: the failure is
counted and logged, and nothing is learned about the quality of its answers. Where a stream has begun there is no falling back.
"""

import asyncio
from collections.abc import Mapping, Sequence

from fastapi import Request

from online.plugins.openai.answers import note_message
from online.plugins.openai.chat_requests import ReceivedChat
from online.plugins.openai.completers import ChatCompleter
from online.plugins.openai.completions import CompletedChat, RefusedChat, WholeChat
from online.plugins.router.accounting import RouteAccounts
from online.plugins.router.answer_uses import AnswerUses
from online.plugins.router.chat_requests import RoutedRequest, read_request
from online.plugins.router.chosen_routes import ChosenRoute
from online.plugins.router.clients import RouteClients
from online.plugins.router.relayed_streams import RelayedStream
from online.plugins.router.route_choice import RouteChoice
from online.plugins.router.upstream import AnswerStream, RouteClient, UpstreamFailure, parse_object
from online.schemas.access.callers import Caller
from online.serving.model_runtime import ModelRuntime
from online.serving.parts import PruningRun, Work


class RoutedChat(ChatCompleter):
    """The routes of one model, while it is served."""

    def __init__(self, model: ModelRuntime, accounting: RouteAccounts) -> None:
        """Read the routes. Raises SetupError for routes that cannot be used."""
        self.model, self.name = model, model.spec.name
        self.routes = RouteClients(model)
        self.choice, self.accounting = RouteChoice(model), accounting
        self.uses = AnswerUses(model, accounting, self.routes)
        self._ending = list[RelayedStream]()

    @property
    def clients(self) -> Mapping[str, RouteClient]:
        """The clients of the routes, by name."""
        return self.routes.by_name

    async def start(self) -> None:
        """Create the clients of the routes. Raises SetupError."""
        await self.routes.start()

    def background(self, is_primary: bool) -> list[Work]:
        """Return the recording of outcomes and of conversations, the judge, and the reading of the routes that are added."""
        return [
            self.accounting.outcomes.run(),
            self.choice.held.run(),
            self.uses.judge.run(),
            self.routes.follow_added(),
        ]

    async def prune(self, pruning: PruningRun) -> None:
        """Delete the routes of old conversations."""
        await self.choice.held.prune(pruning)

    async def close(self) -> None:
        """Record what is left, and close the connections."""
        await asyncio.gather(*(each.wait_closed() for each in self._ending), return_exceptions=True)
        await self.accounting.outcomes.close()
        await self.routes.close()

    # answering

    async def complete(self, request: Request, chat: ReceivedChat, caller: Caller) -> CompletedChat:
        """Return the completion by the best route that answers. Raises what `answer` raises."""
        return await self.uses.use(await self.answer(request, chat, caller), chat)

    async def answer(
        self, request: Request, chat: ReceivedChat, caller: Caller, without: Sequence[str] = ()
    ) -> CompletedChat:
        """Return the completion by the best route that answers.

        without: routes that are not asked. Raises NoRouteAnswers, RefusedChat, and what predicting raises.
        """
        asked = read_request(chat, self.model.predictor.settings.max_text_chars)
        failures: dict[str, str] = {}
        while True:
            chosen = await self.choice.choose(asked, caller, self.clients, failures, without)
            try:
                if chat.parsed.stream:
                    stream = await chosen.client.open_stream(asked.body)
                    return await self._relay(request, asked, chosen, stream)
                answer = await chosen.client.complete(asked.body)
            except UpstreamFailure as failure:
                self.accounting.note_failure(chosen.route, failure)
                if failure.is_callers:
                    raise RefusedChat(failure.status or 400, parse_object(failure.body) or {}) from failure
                failures[chosen.route.name] = failure.kind
                continue
            await self._note_answer(request, asked, chosen)
            took = answer.first_s, answer.seconds
            cost = self.accounting.record(chosen, asked.facts, answer.usage, took, "answered")
            answered = answer.content | {"id": chosen.id, "system_fingerprint": chosen.fingerprint}
            if url := chosen.headers.get("X-Feedback-Url"):
                answered["feedback_url"] = url
            return WholeChat(answered, {**chosen.headers, "X-Cost": f"{cost:.9f}"})

    async def _note_answer(self, request: Request, asked: RoutedRequest, chosen: ChosenRoute) -> None:
        """Note who answers the conversation, and in which message of the page."""
        if asked.chat.task is None:
            self.choice.held.note(asked.conversation, chosen.route.name)
        if not chosen.is_recorded:
            return
        if url := await note_message(request, self.model, chosen.id, asked.chat.message_id):
            chosen.headers["X-Feedback-Url"] = url

    async def _relay(
        self, request: Request, asked: RoutedRequest, chosen: ChosenRoute, stream: AnswerStream
    ) -> CompletedChat:
        """Return a stream that passes a route's on."""
        try:
            await self._note_answer(request, asked, chosen)
        except BaseException:
            await stream.aclose()
            raise
        relayed = RelayedStream(self.accounting, asked, chosen, stream)
        self._ending.append(relayed)
        relayed.on_end = self._ending.remove
        return relayed
