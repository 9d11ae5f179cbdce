"""HTTP: feedback as other chat pages send it. Each door is shut until it is set up.

Open WebUI    POST /integrations/open-webui            its event webhook (open_webui.py)
LibreChat     POST, DELETE /api/public/scores          it takes us for a Langfuse (langfuse.py)
              POST /api/public/otel/v1/traces          what else it sends there, which is not kept
              GET /api/public/projects                 what it asks there
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from online.errors import NotFound, Unavailable
from online.schemas import OutsideAnswer, OutsideEvent, Score
from online.serving.api import ERRORS, PartsHere, answer, body_of
from online.serving.bodies import body_as
from online.serving.langfuse import Langfuse, id_of
from online.serving.open_webui import OpenWebui

router = APIRouter(responses=ERRORS)


@router.post(
    "/integrations/open-webui", status_code=202, response_model=OutsideAnswer, openapi_extra=body_of(OutsideEvent)
)
async def open_webui_event(request: Request, parts: PartsHere) -> Response:
    """An event of an Open WebUI. Of feedback, what it says there now is made to stand here; others are not looked at."""
    if parts.open_webui is None:
        raise NotFound("no Open WebUI is set up here: set open_webui_url and open_webui_key")
    event = await body_as(request, OutsideEvent, parts.settings)
    id = str(event.subject.id or "") if event.subject else ""
    return answer({"id": id, "status": await followed(parts.open_webui, event.event, id)}, 202)


async def followed(open_webui: OpenWebui, event: str, id: str) -> str:
    if event == "feedback.deleted_all":
        open_webui.hurry.set()
        return "waiting"
    try:
        return await open_webui.look_up(id) if event.startswith("feedback.") else "ignored"
    except Unavailable:
        return "waiting"


async def langfuse_of(request: Request, parts: PartsHere) -> Langfuse:
    """Raises NotFound where it is not set up, and Unauthorized."""
    if parts.langfuse is None:
        raise NotFound("no LibreChat is set up here: set langfuse_public_key and langfuse_secret_key")
    parts.langfuse.check(request.headers.get("authorization", ""))
    return parts.langfuse


LangfuseHere = Annotated[Langfuse, Depends(langfuse_of)]


@router.post("/api/public/scores", response_model=OutsideAnswer, openapi_extra=body_of(Score))
async def take_score(request: Request, parts: PartsHere, langfuse: LangfuseHere) -> Response:
    """A thumb of LibreChat, in Langfuse's shape. The same id again changes it."""
    score = await body_as(request, Score, parts.settings)
    return answer({"id": id_of(score), "status": await langfuse.take(score)})


@router.delete("/api/public/scores/{id}", response_model=OutsideAnswer)
async def delete_score(id: str, langfuse: LangfuseHere) -> Response:
    """A thumb that LibreChat's user took back."""
    return answer({"id": id, "status": await langfuse.take_back(id)})


@router.post("/api/public/otel/v1/traces", include_in_schema=False)
async def drop_traces(langfuse: LangfuseHere) -> Response:
    """LibreChat sends no thumbs unless it sends traces too."""
    return answer({})


@router.get("/api/public/projects", include_in_schema=False)
async def projects(langfuse: LangfuseHere) -> Response:
    """LibreChat asks where it is, so as to send a thumb where the trace went."""
    return answer({"data": [{"id": "online", "name": "online"}]})
