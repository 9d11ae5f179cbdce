"""The routes on which other chat pages send feedback. Each answers 404 until it is configured.

Open WebUI    POST /integrations/open-webui            its event webhook (open_webui.py)
LibreChat     POST, DELETE /api/public/scores          it sends scores as to Langfuse (langfuse.py)
and clients   POST /api/public/ingestion               scores of older clients of Langfuse
of Langfuse   POST /api/public/otel/v1/traces          traces that they send too; they are discarded
              GET /api/public/projects                 a request for the project's name
              anything else under /api/public          404, with the routes that there are
"""

from collections.abc import Iterable
from typing import Annotated

from fastapi import Depends, Request, Response
from pydantic_core import from_json

from online.api.bodies import parse_as, read_body_as, read_json
from online.api.dependencies import RuntimeDep
from online.api.responses import json_response
from online.api.routes import Router
from online.errors import BadInput, NotFound, TooLarge, Unavailable
from online.installed import ContributedParts
from online.plugins.chat_pages.langfuse import Langfuse, SavedScore, score_id
from online.plugins.chat_pages.open_webui import OpenWebui
from online.plugins.chat_pages.schemas import IntegrationAnswer, LangfuseScore, OpenWebuiEvent, ScoreEvents
from online.plugins.chat_pages.settings import ChatPageSettings
from online.schemas.json_values import JSONArray
from online.serving.parts import ServicePart, Work
from online.serving.runtime import Runtime
from online.settings import Settings, reveal

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
SCORE_EVENT = "score-create"
LANGFUSE_SERVED = (
    "POST and DELETE /api/public/scores, POST /api/public/ingestion, POST /api/public/otel/v1/traces and "
    "GET /api/public/projects"
)

router = Router()


class ChatPages(ServicePart):
    """The chat pages whose ratings are learned, as far as they are configured."""

    def __init__(self, runtime: Runtime) -> None:
        settings, store = runtime.settings.part(ChatPageSettings), runtime.workspace.store
        feedback = {name: model.feedback for name, model in runtime.models.items()}
        url, key = settings.open_webui_url, reveal(settings.open_webui_key)
        public, secret = settings.langfuse_public_key, reveal(settings.langfuse_secret_key)
        slots, self.every_s = runtime.feedback_slots, settings.open_webui_every_s
        self.open_webui = OpenWebui(url, key, store, feedback, slots) if url and key else None
        self.langfuse = Langfuse(public, secret, store, feedback, slots) if public and secret else None

    def background(self, is_primary: bool) -> Iterable[Work]:
        """Yield the copying of ratings, in one process only."""
        if is_primary and self.open_webui is not None:
            yield self.open_webui.run(self.every_s)


def pages_of(request: Request) -> ChatPages:
    """Return this plugin's part of the application."""
    parts: ContributedParts = request.app.state.parts
    return parts.find(ChatPages)


@router.post(
    "/integrations/open-webui",
    "anybody",
    status_code=202,
    response_model=IntegrationAnswer,
    body=OpenWebuiEvent,
)
async def receive_open_webui_event(request: Request, runtime: RuntimeDep) -> Response:
    """Receive an event of an Open WebUI. For feedback, its present state there is copied here; other events are ignored."""
    open_webui = pages_of(request).open_webui
    if open_webui is None:
        raise NotFound("the integration of Open WebUI is not configured: set open_webui_url and open_webui_key")
    event = await read_body_as(request, OpenWebuiEvent, runtime.settings)
    id = str(event.subject.id or "") if event.subject else ""
    return json_response({"id": id, "status": await follow_event(open_webui, event.event, id)}, 202)


async def follow_event(open_webui: OpenWebui, event: str, id: str) -> str:
    """Return the status of the answer."""
    if event == "feedback.deleted_all":
        open_webui.sync_now.set()
        return "waiting"
    try:
        return await open_webui.sync_one(id) if event.startswith("feedback.") else "ignored"
    except Unavailable:
        return "waiting"


async def get_langfuse(request: Request) -> Langfuse:
    """Return the emulation of Langfuse, for a request with its keys. Raises NotFound where it is not configured, and Unauthorized."""
    langfuse = pages_of(request).langfuse
    if langfuse is None:
        raise NotFound(
            "the integration of LibreChat is not configured: set langfuse_public_key and langfuse_secret_key"
        )
    langfuse.check(request.headers.get("authorization", ""))
    return langfuse


LangfuseDep = Annotated[Langfuse, Depends(get_langfuse)]


@router.post("/api/public/scores", "own keys", response_model=IntegrationAnswer, body=LangfuseScore)
async def save_score(request: Request, runtime: RuntimeDep, langfuse: LangfuseDep) -> Response:
    """Save a thumb, in Langfuse's shape. A second request with the same id replaces it.

    A list of scores is answered as Langfuse answers it: 202, or 207 with a message for each that is refused.
    """
    body = await read_json(request, runtime.settings)
    if body.lstrip()[:1] == b"[":
        return describe_list(await langfuse.save_all(parse_list(body, runtime.settings)))
    score = parse_as(body, LangfuseScore)
    return json_response({"id": score_id(score), "status": await langfuse.save(score)})


def parse_list(body: bytes, settings: Settings) -> list[object]:
    """Parse a list of documents. Raises BadInput and TooLarge."""
    try:
        scores: JSONArray = from_json(body)
    except ValueError as error:
        raise BadInput(f"the body is not valid JSON: {error}") from None
    return check_count(scores, settings)


def check_count(scores: JSONArray, settings: Settings) -> JSONArray:
    """Return a list that is not too long. Raises TooLarge."""
    if len(scores) > settings.max_instances:
        raise TooLarge(f"{len(scores)} scores; at most {settings.max_instances} in one request (max_instances)")
    return scores


def describe_list(saved: list[SavedScore]) -> Response:
    """Return the outcome of several scores in Langfuse's shape."""
    errors = [{"message": str(each.error)} for each in saved if each.error is not None]
    scores = [{"id": each.id, "status": each.outcome} for each in saved if each.outcome is not None]
    if not errors:
        return json_response({"message": "Accepted", "scores": scores}, 202)
    counts = {"accepted": len(scores), "rejected": len(errors)}
    return json_response({**counts, "errors": errors, "scores": scores}, 207)


@router.post("/api/public/ingestion", "own keys", include_in_schema=False)
async def ingest(request: Request, runtime: RuntimeDep, langfuse: LangfuseDep) -> Response:
    """Save the scores among the events of Langfuse's older clients. Traces, and what belongs to them, are discarded."""
    events = (await read_body_as(request, ScoreEvents, runtime.settings)).batch
    scores = [event for event in check_count(events, runtime.settings) if event.type == SCORE_EVENT]
    saved = await langfuse.save_all([event.body for event in scores])
    refused = [(event, each.error) for event, each in zip(scores, saved, strict=True) if each.error is not None]
    errors = [{"id": event.id, "status": error.status, "message": str(error)} for event, error in refused]
    are_refused = {id(event) for event, _ in refused}
    kept = [event for event in events if id(event) not in are_refused]
    return json_response({"successes": [{"id": event.id, "status": 201} for event in kept], "errors": errors}, 207)


@router.delete("/api/public/scores/{id}", "own keys", response_model=IntegrationAnswer)
async def delete_score(id: str, langfuse: LangfuseDep) -> Response:
    """Retract a thumb of LibreChat."""
    return json_response({"id": id, "status": await langfuse.delete(id)})


@router.post("/api/public/otel/v1/traces", "own keys", include_in_schema=False)
async def discard_traces(langfuse: LangfuseDep) -> Response:
    """LibreChat sends no thumbs unless it sends traces too."""
    return json_response({})


@router.get("/api/public/projects", "own keys", include_in_schema=False)
async def list_projects(langfuse: LangfuseDep) -> Response:
    """LibreChat requests the project in order to send a thumb to the same place as its trace, other clients to check their keys."""
    organization = {"id": "online", "name": "online"}
    return json_response({"data": [{**organization, "organization": organization, "metadata": {}}]})


@router.add(METHODS, "/api/public/{path:path}", "own keys", include_in_schema=False)
async def refuse_call(request: Request, langfuse: LangfuseDep) -> Response:
    """Refuse another route of Langfuse's API, naming those that exist."""
    raise NotFound(
        f"{request.method} {request.url.path[:200]} is not served here; of Langfuse's API this service has {LANGFUSE_SERVED}"
    )
