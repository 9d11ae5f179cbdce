"""Deltas between two versions, for devices that have one of them (`online.plugins.export.file_deltas`)."""

import asyncio
from typing import Annotated, Literal

from fastapi import Query, Request, Response

from online.api.auth.scopes import CallerDep
from online.api.dependencies import ModelDep
from online.api.routes import Router
from online.api.web.negotiation import IDENTITY, pick_encoding
from online.errors import NotFound
from online.plugins.export.deltas import COMPRESSORS, VersionFile, tag_delta
from online.plugins.export.learner_files import LEARNER
from online.plugins.export.model_exports import exports_of
from online.plugins.export.routes.exports import find_export
from online.plugins.export.routes.learner_files import check_may_read_sums
from online.plugins.export.routes.sending import WAITING, answer_known, describe_file, send_file
from online.schemas.access.callers import Caller
from online.serving.model_runtime import ModelRuntime

router = Router()

RESPONSES = {**describe_file("The delta."), **WAITING}


@router.get("/v1/models/{model}/versions/{version}/delta", "predict", response_class=Response, responses=RESPONSES)
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

    It names both files by their sha256. Where one of the versions is no longer kept, 404; where a file has more than 128 MiB, or the tensors
    that changed more than 64 MiB, 413: load the whole file. After a thumb a delta of the format `learner` has a few hundred bytes. `X-Model-Version` names the version that it leads to.
    """
    new = await find_file(caller, model, version, format)
    old = await find_file(caller, model, since, format)
    if format == LEARNER and since.isdigit() and old.version != int(since):
        raise NotFound(f"{model.spec.name} has no file of version {since} for a learner: load the whole file")
    encoding = pick_encoding(request.headers.get("accept-encoding", ""), [*COMPRESSORS])
    tag = tag_delta(old, new, encoding)
    headers = {"Vary": "Accept-Encoding", "X-Model-Version": str(new.version)}
    if known := answer_known(request, tag, headers):
        return known
    delta = await exports_of(model).deltas.find(old, new, encoding)
    return send_file(
        request, delta, tag, headers if encoding == IDENTITY else {**headers, "Content-Encoding": encoding}
    )


async def find_file(caller: Caller, model: ModelRuntime, version: str, format: str) -> VersionFile:
    """Return the exported file of a version. Raises what the export of it raises."""
    if format == LEARNER:
        check_may_read_sums(caller, model)
        number = await asyncio.to_thread(model.snapshots.labels.resolve, version)
        return VersionFile.of_learner(await exports_of(model).learner_files.load(number))
    return VersionFile.of_export(await find_export(caller, model, version, format))
