"""Answers whose texts are kept: of conversations of the page, and of a router with the option `keep_answers`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from online.plugins.openai.completions import CompletedChat, StreamedChat, WholeChat
from online.plugins.router.answer_texts import AnswerTextRow, add_answer_text
from online.schemas.json_values import JSONObject
from online.serving.model_runtime import ModelRuntime
from online.store import now


class KeptTexts:
    """The texts of one router's answers."""

    def __init__(self, router: ModelRuntime) -> None:
        self.router = router

    async def keep(self, completed: CompletedChat, question_id: str = "") -> CompletedChat:
        """Return an answer whose text is kept, of a stream once it has ended. question_id: see `AnswerTextRow`."""
        id = str(completed.content["id"]) if isinstance(completed, WholeChat) else completed.id
        route = completed.headers["X-Route"]
        return await collect_text(completed, lambda text: self.save(id, route, text, question_id))

    async def save(self, id: str, route: str, text: str, question_id: str = "") -> None:
        """Store the text of an answer. Its prediction is in the store before, so that both go together."""
        if await self.router.transactions.load_predictions([id]):
            name = self.router.spec.name
            row = AnswerTextRow(
                prediction_id=id, model=name, question_id=question_id, route=route, text=text, created_at=now()
            )
            await self.router.transactions.write(lambda connection: add_answer_text(connection, row))


async def collect_text(completed: CompletedChat, use: Callable[[str], Awaitable[None]]) -> CompletedChat:
    """Return an answer whose text is used as well, of a stream once it has ended."""
    if isinstance(completed, StreamedChat):
        return CollectedStream(completed, use)
    for choice in completed.content.get("choices") or ():
        text = (choice.get("message") or {}).get("content")
        if isinstance(text, str) and text:
            await use(text)
    return completed


class CollectedStream(StreamedChat):
    """A streamed answer that is passed on and collected. Also what came of an answer that was cut is used."""

    def __init__(self, stream: StreamedChat, use: Callable[[str], Awaitable[None]]) -> None:
        """use: called with the text, once, unless there is none."""
        self.id, self.headers, self.stream, self._use = stream.id, stream.headers, stream, use
        self.parts = list[str]()
        self._using: asyncio.Task[None] | None = None

    async def chunks(self) -> AsyncIterator[JSONObject]:
        """Yield the chunks as they come; the text is used before the last one has been read."""
        async for chunk in self.stream.chunks():
            for choice in chunk.get("choices") or ():
                text = (choice.get("delta") or {}).get("content")
                if isinstance(text, str):
                    self.parts.append(text)
            yield chunk
        await self._finish()

    def end(self) -> None:
        """End the stream, and use the text of a caller who has left."""
        self.stream.end()
        self._using = asyncio.get_running_loop().create_task(self._finish())

    async def _finish(self) -> None:
        text, self.parts = "".join(self.parts), []
        if text:
            await self._use(text)
