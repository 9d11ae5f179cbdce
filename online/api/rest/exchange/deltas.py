"""What changed between two versions, for devices that have one of them (`online.models.exchange.deltas`)."""

import asyncio
import gzip
import hashlib
from typing import Annotated, Any, Literal

import zstandard
from fastapi import APIRouter, Query, Request, Response

from online.api.auth.scopes import CallerDep
from online.api.dependencies import ModelDep
from online.api.responses import ERROR_RESPONSES
from online.api.rest.exchange.exports import find_export
from online.api.rest.exchange.learner_files import BINARY, LEARNER, check_may_read_sums
from online.api.web.negotiation import IDENTITY, pick_encoding
from online.api.web.rendered_files import matches
from online.errors import NotFound
from online.models.exchange.deltas import write_delta
from online.schemas.access.callers import Caller
from online.serving.model_runtime import ModelRuntime

router = APIRouter(responses=ERROR_RESPONSES)

ENCODINGS = {
    "zstd": lambda data: zstandard.compress(data, 10),
    "gzip": lambda data: gzip.compress(data, mtime=0),
}  # the best first
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}, "description": "The delta."},
    304: {"description": "If-None-Match names the delta that would be sent."},
}


@router.get("/v1/models/{model}/versions/{version}/delta", response_class=Response, responses=RESPONSES)
async def send_delta(
    request: Request,
    caller: CallerDep,
    model: ModelDep,
    version: str,
    since: Annotated[str, Query(alias="from", description="The version that the device has: its number or a label.")],
    format: Annotated[
        Literal["learner", "safetensors"],
        Query(description="Of the exported files: a format that consists of tensors."),
    ] = "learner",
) -> Response:
    """What turns the exported file of one version into that of another, byte for byte.

    It names both files by their sha256. Where one of the versions is no longer kept, 404: load the whole file. After a thumb a delta
    of the format `learner` has a few hundred bytes. `X-Model-Version` names the version that it leads to.
    """
    new, number = await load_file(caller, model, version, format)
    old, before = await load_file(caller, model, since, format)
    if format == LEARNER and since.isdigit() and before != int(since):
        raise NotFound(f"{model.spec.name} has no file of version {since} for a learner: load the whole file")
    accepted = pick_encoding(request.headers.get("accept-encoding", ""), [*ENCODINGS])
    delta, sent = await asyncio.to_thread(compute_delta, old, new, accepted)
    tag = f'"{hashlib.sha256(delta).hexdigest()}-{accepted}"'
    headers = {
        "ETag": tag,
        "Cache-Control": "private, no-cache",
        "Vary": "Accept-Encoding",
        "X-Model-Version": str(number),
    }
    if matches(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    encoding = {} if accepted == IDENTITY else {"Content-Encoding": accepted}
    return Response(sent, media_type=BINARY, headers={**headers, **encoding})


async def load_file(caller: Caller, model: ModelRuntime, version: str, format: str) -> tuple[bytes, int]:
    """The exported file of a version, and the number of the version that it is of. Raises what the export of it raises."""
    if format == LEARNER:
        check_may_read_sums(caller, model)
        number = await asyncio.to_thread(model.snapshots.resolve, version)
        file = await model.learner_files.load(number)
        return file.data, file.version
    kept = await find_export(caller, model, version, format)
    return await asyncio.to_thread(kept.path.read_bytes), int(kept.manifest["version"])


def compute_delta(old: bytes, new: bytes, encoding: str) -> tuple[bytes, bytes]:
    """The delta, and the same as it is sent."""
    delta = write_delta(old, new)
    return delta, ENCODINGS[encoding](delta) if encoding in ENCODINGS else delta
