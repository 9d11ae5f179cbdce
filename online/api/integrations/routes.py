"""The routes on which other chat pages send feedback. Each answers 404 until it is configured.

Open WebUI    POST /integrations/open-webui            its event webhook (open_webui.py)
LibreChat     POST, DELETE /api/public/scores          it sends scores as to Langfuse (langfuse.py)
              POST /api/public/otel/v1/traces          traces that it sends too; they are discarded
              GET /api/public/projects                 a request for the project's name
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from online.api.bodies import read_body_as
from online.api.dependencies import RuntimeDep
from online.api.integrations.langfuse import Langfuse, score_id
from online.api.integrations.open_webui import OpenWebui
from online.api.responses import ERROR_RESPONSES, json_response, request_body
from online.errors import NotFound, Unavailable
from online.schemas.integrations import IntegrationAnswer, OpenWebuiEvent, Score

router = APIRouter(responses=ERROR_RESPONSES)


@router.post(
    "/integrations/open-webui",
    status_code=202,
    response_model=IntegrationAnswer,
    openapi_extra=request_body(OpenWebuiEvent),
)
async def receive_open_webui_event(request: Request, runtime: RuntimeDep) -> Response:
    """Receive an event of an Open WebUI. For feedback, its present state there is copied here; other events are ignored."""
    open_webui: OpenWebui | None = request.app.state.open_webui
    if open_webui is None:
        raise NotFound("the integration of Open WebUI is not configured: set open_webui_url and open_webui_key")
    event = await read_body_as(request, OpenWebuiEvent, runtime.settings)
    id = str(event.subject.id or "") if event.subject else ""
    return json_response({"id": id, "status": await follow_event(open_webui, event.event, id)}, 202)


async def follow_event(open_webui: OpenWebui, event: str, id: str) -> str:
    """The status of the answer."""
    if event == "feedback.deleted_all":
        open_webui.sync_now.set()
        return "waiting"
    try:
        return await open_webui.sync_one(id) if event.startswith("feedback.") else "ignored"
    except Unavailable:
        return "waiting"


async def get_langfuse(request: Request) -> Langfuse:
    """Raises NotFound where it is not configured, and Unauthorized."""
    langfuse: Langfuse | None = request.app.state.langfuse
    if langfuse is None:
        raise NotFound(
            "the integration of LibreChat is not configured: set langfuse_public_key and langfuse_secret_key"
        )
    langfuse.check(request.headers.get("authorization", ""))
    return langfuse


LangfuseDep = Annotated[Langfuse, Depends(get_langfuse)]


@router.post("/api/public/scores", response_model=IntegrationAnswer, openapi_extra=request_body(Score))
async def save_score(request: Request, runtime: RuntimeDep, langfuse: LangfuseDep) -> Response:
    """Save a thumb of LibreChat, in Langfuse's shape. A second request with the same id replaces it."""
    score = await read_body_as(request, Score, runtime.settings)
    return json_response({"id": score_id(score), "status": await langfuse.save(score)})


@router.delete("/api/public/scores/{id}", response_model=IntegrationAnswer)
async def delete_score(id: str, langfuse: LangfuseDep) -> Response:
    """Retract a thumb of LibreChat."""
    return json_response({"id": id, "status": await langfuse.delete(id)})


@router.post("/api/public/otel/v1/traces", include_in_schema=False)
async def discard_traces(langfuse: LangfuseDep) -> Response:
    """LibreChat sends no thumbs unless it sends traces too."""
    return json_response({})


@router.get("/api/public/projects", include_in_schema=False)
async def list_projects(langfuse: LangfuseDep) -> Response:
    """LibreChat requests the project in order to send a thumb to the same place as its trace."""
    return json_response({"data": [{"id": "online", "name": "online"}]})
