"""The server of a local model: OpenAI's chat completions, whole and streamed, by the adapter in force.

POST /v1/chat/completions --> Generator --pieces--> one answer, or server-sent events
file `active` --watch--> Generator.switch
"""

import asyncio
import json
import logging
import signal
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from online.errors import BadInput, NotFound, OnlineError
from online_adapters.adapted_model import AdaptedModel
from online_adapters.adapter_folder import BASE
from online_adapters.answer_text import AnswerText
from online_adapters.batch import AnswerPiece, GenerationJob
from online_adapters.chat_body import ChatBody, parse_chat_body
from online_adapters.generator import Generator
from online_adapters.sampling import TokenSampler

logger = logging.getLogger(__name__)
POLL_S = 0.05  # of the file `active`


class AdapterServer:
    """The routes of the server. name: of the base model. problem: why the adapter of the file `active` is not in force."""

    def __init__(self, model: AdaptedModel, name: str) -> None:
        self.model, self.name, self.problem = model, name, ""
        self.generator = Generator(model)

    def create_app(self) -> FastAPI:
        """Return the application. It starts the generator, and ends it when what runs has been answered."""
        app = FastAPI(title="online-adapters", lifespan=self._live, openapi_url=None)
        app.add_api_route("/v1/chat/completions", self.complete, methods=["POST"], response_model=None)
        app.add_api_route("/v1/models", self.list_models, methods=["GET"])
        app.add_api_route("/healthz", self.report_health, methods=["GET"], response_model=None)
        app.add_exception_handler(OnlineError, answer_error)
        return app

    @asynccontextmanager
    async def _live(self, app: FastAPI) -> AsyncIterator[None]:
        self.generator.start()
        await self._follow(name := self.model.folder.read_active())
        watch = asyncio.create_task(self._watch(name))
        yield
        watch.cancel()
        await asyncio.to_thread(self.generator.stop)

    async def _follow(self, name: str) -> None:
        try:
            await asyncio.wrap_future(self.generator.switch(name))
        except Exception as error:
            self.problem = f"{name or 'the base model'} is not in force: {error}"
            logger.error("%s", self.problem)
        else:
            self.problem = ""
            logger.info("%s is in force", name or "the base model")

    async def _watch(self, last: str) -> None:
        """Put in force what the file `active` names, whenever it changes."""
        while True:
            await asyncio.sleep(POLL_S)
            try:
                name = self.model.folder.read_active()
            except (OnlineError, OSError) as error:
                self.problem = str(error)
                continue
            if name != last:
                last = name
                await self._follow(name)

    def find_adapter(self, model: str) -> str | None:
        """Return the adapter that a request names; None is the one in force. Raises NotFound."""
        base, at, adapter = model.partition("@")
        if base != self.name:
            raise NotFound(f"the model {model[:100]!r} does not exist; ask for {self.name!r}").because(
                "model_not_found"
            )
        if not at:
            return None
        try:
            self.model.folder.find(adapter)
        except NotFound as error:
            raise error.because("model_not_found") from None
        return adapter

    async def complete(self, request: Request) -> Response:
        """Answer a chat. Raises BadInput, NotFound."""
        body = parse_chat_body(await request.body())
        adapter = self.find_adapter(body.model)
        prompt = await asyncio.to_thread(self.model.encode_chat, [turn.as_plain() for turn in body.messages])
        room = self.model.context - len(prompt)
        if room < 1:
            raise BadInput(
                f"messages: the prompt has {len(prompt)} tokens, and prompt and answer together at most {self.model.context}; shorten it"
            ).because("context_length_exceeded")
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue[AnswerPiece]()
        job = GenerationJob(
            prompt,
            min(body.limit, room),
            AnswerText(self.model.decode, body.stops),
            TokenSampler(
                1.0 if body.temperature is None else body.temperature,
                1.0 if body.top_p is None else body.top_p,
                body.seed,
            ),
            lambda piece: loop.call_soon_threadsafe(pieces.put_nowait, piece),
        )
        self.generator.submit(job, adapter)
        answer = self._describe(job)
        headers = {"X-Ignored-Fields": ", ".join(body.ignored)} if body.ignored else {}
        leaving = asyncio.create_task(cancel_where_caller_leaves(request, job))
        try:
            taken = [await pieces.get()]
            while not body.stream and is_open(taken[-1]):
                taken.append(await pieces.get())
        finally:
            leaving.cancel()
        if (error := taken[-1].error) is not None:
            raise error if isinstance(error, OnlineError) else OnlineError("the model failed; see the server's log")
        if body.stream:
            events = stream(answer, body, job, taken[0], pieces)
            return StreamingResponse(events, media_type="text/event-stream", headers=headers)
        message = {"role": "assistant", "content": "".join(piece.text for piece in taken)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": taken[-1].finish}
        whole = {**answer, "object": "chat.completion", "choices": [choice], "usage": count_usage(job)}
        return JSONResponse(whole, headers=headers)

    def _describe(self, job: GenerationJob) -> dict[str, Any]:
        name = f"{self.name}@{job.adapter}" if job.adapter != BASE else self.name
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": name,
            "system_fingerprint": job.adapter or "base",
        }

    async def list_models(self) -> dict[str, Any]:
        """List the base model, which stands for the adapter in force, and each adapter."""
        names = [self.name, *(f"{self.name}@{each}" for each in self.model.folder.list_names())]
        models = [{"id": name, "object": "model", "created": 0, "owned_by": "online-adapters"} for name in names]
        return {"object": "list", "data": models}

    async def report_health(self) -> JSONResponse:
        """Report the adapter in force, those in memory, and the number of answers that run; 503 where none is generated."""
        content = {
            "status": "ok" if self.generator.is_alive else "the generator has ended; restart the server",
            "in_force": self.generator.in_force or "base",
            "loaded": sorted(self.model.loaded),
            "running": self.generator.count_jobs().total(),
            "problem": self.problem,
        }
        return JSONResponse(content, 200 if self.generator.is_alive else 503)


async def stream(
    answer: dict[str, Any], body: ChatBody, job: GenerationJob, first: AnswerPiece, pieces: asyncio.Queue[AnswerPiece]
) -> AsyncIterator[str]:
    """Yield the server-sent events of an answer. Its job is cancelled where the caller leaves."""
    head = {**answer, "object": "chat.completion.chunk"}
    includes_usage = body.stream_options is not None and body.stream_options.include_usage
    unknown = {"usage": None} if includes_usage else {}
    try:
        yield write_event({**head, "choices": [choose({"role": "assistant", "content": ""})], **unknown})
        piece = first
        while True:
            if piece.error is not None:
                yield write_event({"error": describe_error(OnlineError("the model failed; see the server's log"))})
                return
            if piece.text:
                yield write_event({**head, "choices": [choose({"content": piece.text})], **unknown})
            if not is_open(piece):
                break
            piece = await pieces.get()
        yield write_event({**head, "choices": [choose({}, piece.finish)], **unknown})
        if includes_usage:
            yield write_event({**head, "choices": [], "usage": count_usage(job)})
        yield "data: [DONE]\n\n"
    finally:
        job.is_cancelled = True


def is_open(piece: AnswerPiece) -> bool:
    """Return whether more pieces follow."""
    return piece.finish is None and piece.error is None


def choose(delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
    """Return the choice of a chunk."""
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def write_event(content: dict[str, Any]) -> str:
    """Return a server-sent event."""
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"


def count_usage(job: GenerationJob) -> dict[str, int]:
    """Return the numbers of tokens."""
    tokens_in, tokens_out = len(job.prompt), job.tokens_out
    return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}


def describe_error(error: OnlineError) -> dict[str, Any]:
    """Return an error in OpenAI's shape."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {"message": str(error), "type": kind, "param": None, "code": error.code or None}


async def answer_error(request: Request, error: Exception) -> JSONResponse:
    """Return the answer for an error."""
    assert isinstance(error, OnlineError)
    return JSONResponse({"error": describe_error(error)}, error.status)


async def cancel_where_caller_leaves(request: Request, job: GenerationJob) -> None:
    """Cancel a job once the connection is closed."""
    with suppress(asyncio.CancelledError):
        while (await request.receive())["type"] != "http.disconnect":
            pass
        job.is_cancelled = True


def serve(model: AdaptedModel, name: str, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; what runs is answered before the end."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # uvicorn handles it, and raises it again once all is answered
    uvicorn.run(AdapterServer(model, name).create_app(), host=host, port=port)
