"""Streams whose text is kept once they have ended."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from online.plugins.openai.completions import StreamedChat
from online.schemas.json_values import JSONObject


class KeptStream(StreamedChat):
    """A streamed answer that is passed on and collected. Also what came of an answer that was cut is kept."""

    def __init__(self, stream: StreamedChat, keep: Callable[[str], Awaitable[None]]) -> None:
        """keep: called with the text, once, unless there is none."""
        self.id, self.headers, self.stream, self._keep = stream.id, stream.headers, stream, keep
        self.parts = list[str]()
        self._keeping: asyncio.Task[None] | None = None

    async def chunks(self) -> AsyncIterator[JSONObject]:
        """Yield the chunks as they come; the text is kept before the last one has been read."""
        async for chunk in self.stream.chunks():
            for choice in chunk.get("choices") or ():
                text = (choice.get("delta") or {}).get("content")
                if isinstance(text, str):
                    self.parts.append(text)
            yield chunk
        await self._finish()

    def end(self) -> None:
        """End the stream, and keep the text of a caller who has left."""
        self.stream.end()
        self._keeping = asyncio.get_running_loop().create_task(self._finish())

    async def _finish(self) -> None:
        text, self.parts = "".join(self.parts), []
        if text:
            await self._keep(text)
