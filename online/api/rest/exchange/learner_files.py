"""The file with which a device goes on learning where it has no connection.

A file of sums shows averages of what others have taught, and of a class with one example that example. So it needs the scope
curate, unless the model's setting `share_sums` is true.
"""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from online.api.auth.scopes import CallerDep, check_scope
from online.api.dependencies import ModelDep
from online.api.responses import ERROR_RESPONSES
from online.api.web.rendered_files import matches
from online.schemas.access.callers import Caller
from online.serving.model_runtime import ModelRuntime

router = APIRouter(responses=ERROR_RESPONSES)

BINARY = "application/octet-stream"
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}, "description": "The file."},
    304: {"description": "If-None-Match names the file that would be sent."},
}


@router.get("/v1/models/{model}/versions/{version}/export", response_class=Response, responses=RESPONSES)
async def export_version(
    request: Request,
    caller: CallerDep,
    model: ModelDep,
    version: str,
    format: Annotated[Literal["learner"], Query(description="What the file is for.")] = "learner",
) -> Response:
    """A version as the file with which a device goes on learning. `version` is a number or a label."""
    return await send_learner_file(request, caller, model, version)


async def send_learner_file(request: Request, caller: Caller, model: ModelRuntime, version: str) -> Response:
    """Raises Forbidden, and what `LearnerFiles.load` raises."""
    if not model.spec.share_sums:
        check_scope(caller, "curate", model.spec.name)
    number = await asyncio.to_thread(model.snapshots.resolve, version)
    file = await asyncio.to_thread(model.learner_files.load, number)
    headers = {"ETag": f'"{file.sha256}"', "Cache-Control": "private, no-cache", "X-Model-Version": str(number)}
    if matches(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(file.data, media_type=BINARY, headers=headers)
