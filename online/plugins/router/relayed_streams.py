"""Streams of routes, passed on to the callers."""

import asyncio
from collections.abc import AsyncIterator, Callable

from online.plugins.openai.completions import CutChat, StreamedChat
from online.plugins.router.accounting import RouteAccounts
from online.plugins.router.chat_requests import RoutedRequest
from online.plugins.router.chosen_routes import ChosenRoute
from online.plugins.router.upstream import AnswerStream, UpstreamFailure
from online.schemas.json_values import JSONObject


class RelayedStream(StreamedChat):
    """A streamed answer of a route, passed on chunk by chunk under the id of the prediction.

    on_end: called when the connection to the route is closed.
    """

    def __init__(
        self, accounts: RouteAccounts, asked: RoutedRequest, chosen: ChosenRoute, stream: AnswerStream
    ) -> None:
        self.id, self.headers = chosen.id, chosen.headers
        self.accounts, self.asked, self.chosen, self.stream = accounts, asked, chosen, stream
        self.on_end: Callable[[RelayedStream], None] = lambda relayed: None
        self._end = "cut"
        self._closing: asyncio.Task[None] | None = None

    def end(self) -> None:
        """Record the cost and close the connection, however the caller leaves.

        A cancelled task may not wait, so that the connection is closed by a task of its own.
        """
        stream = self.stream
        self.accounts.record(self.chosen, self.asked.facts, stream.usage, (stream.first_s, stream.seconds), self._end)
        self._closing = asyncio.get_running_loop().create_task(stream.aclose())
        self._closing.add_done_callback(lambda task: self.on_end(self))

    async def wait_closed(self) -> None:
        """Wait until the connection is closed, if the answer has ended."""
        if self._closing is not None:
            await self._closing

    async def chunks(self) -> AsyncIterator[JSONObject]:
        """Yield the chunks of the stream as they come."""
        own = {"id": self.chosen.id, "system_fingerprint": self.chosen.fingerprint}
        url = self.chosen.headers.get("X-Feedback-Url")
        try:
            async for event in self.stream:
                if event.content is None:
                    continue
                content = event.content | own
                if url:
                    content, url = content | {"feedback_url": url}, None
                yield content
            self._end = "answered"
        except UpstreamFailure as failure:
            self.accounts.note_failure(self.chosen.route, failure)
            words = f"the answer of the route {self.chosen.route.name!r} ended too early ({failure.kind})"
            raise CutChat(words, failure.kind) from failure
