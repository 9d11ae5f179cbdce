"""The routes by which replicas of one service read versions from each other.

GET .../versions                      the newest versions, to choose one
GET .../versions/{version}/manifest   signed: it names every file with its sha256
GET .../files/{sha256}                one file, whole or from a byte on
GET /v1/peers/encoders/{sha256}       a tuned text encoder, likewise

Callers with API keys have no access. Every request is signed with the keys that the replicas share (peer_signatures.py).
"""

import asyncio
import hashlib
import os
import time
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse

from online.api.dependencies import ModelDep
from online.api.middleware.paths import route_path
from online.api.responses import json_response
from online.api.routes import Router
from online.api.web.rendered_files import matches
from online.errors import NotFound
from online.plugins.cluster.kept_versions import KeptVersions, read_manifest
from online.plugins.cluster.peer_signatures import SEAL_HEADER, SIGNATURE_HEADER, check_request, sign_manifest
from online.serving.runtime import Runtime

ROOT = "/v1/peers/models/{model}"
CACHE_CONTROL = "private, no-transform"
Version = Annotated[int, PathParameter(ge=1, le=10**17)]
Sha256 = Annotated[str, PathParameter(pattern=r"^[0-9a-f]{64}$")]


class PartResponse(FileResponse):
    """Sends a file, or ranges of it, in chunks that are read in a thread."""

    chunk_size = 1 << 18


async def check_replica(request: Request) -> None:
    """Raise Unauthorized unless the request comes from a replica."""
    runtime: Runtime = request.app.state.runtime
    authorization = request.headers.get("authorization", "")
    check_request(runtime.workspace.keys, request.method, route_path(request.scope), authorization, time.time())


router = Router(compressed=False, include_in_schema=False, dependencies=[Depends(check_replica)])


@router.get(f"{ROOT}/versions", "own keys", every_worker=True)
async def list_peer_versions(model: ModelDep) -> Response:
    """The newest versions and the newest durable ones, newest first."""
    found = await asyncio.to_thread(model.parts.find(KeptVersions).list_newest)
    names = ("version", "learned_until", "durable", "state_sha256")
    return json_response({"versions": [{name: getattr(each, name) for name in names} for each in found]})


@router.get(f"{ROOT}/versions/{{version}}/manifest", "own keys", every_worker=True)
async def send_manifest(request: Request, model: ModelDep, version: Version) -> Response:
    """The manifest of a version, byte for byte, with its signature."""
    runtime: Runtime = request.app.state.runtime
    data, seal = await asyncio.to_thread(read_manifest, model.snapshots.folder, version)
    headers = tag_headers(hashlib.sha256(data).hexdigest())
    if matches(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    headers[SIGNATURE_HEADER] = sign_manifest(runtime.workspace.keys, model.spec.name, version, data)
    if seal:
        headers[SEAL_HEADER] = seal
    return Response(data, headers=headers, media_type="application/json")


@router.get(f"{ROOT}/files/{{sha256}}", "own keys", every_worker=True)
async def send_part(request: Request, model: ModelDep, sha256: Sha256) -> Response:
    """The file that a manifest of a kept version names by this sha256; with the header Range, a part of it."""
    found = await asyncio.to_thread(find_part, model.parts.find(KeptVersions), sha256)
    if found is None:
        raise NotFound(f"no kept version of {model.spec.name} has a file with the sha256 {sha256}")
    headers = tag_headers(sha256)
    if matches(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    path, stat = found
    return PartResponse(path, headers=headers, media_type="application/octet-stream", stat_result=stat)


@router.get("/v1/peers/encoders/{sha256}", "own keys", every_worker=True)
async def send_encoder(request: Request, sha256: Sha256) -> Response:
    """The tuned text encoder with this sha256; with the header Range, a part of it."""
    runtime: Runtime = request.app.state.runtime
    path = runtime.workspace.encoders.find(sha256)
    assert path is not None, "it has a name"
    try:
        stat = await asyncio.to_thread(path.stat)
    except FileNotFoundError:
        raise NotFound(f"there is no tuned encoder with the sha256 {sha256} here") from None
    headers = tag_headers(sha256)
    if matches(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return PartResponse(path, headers=headers, media_type="application/octet-stream", stat_result=stat)


def find_part(versions: KeptVersions, sha256: str) -> tuple[Path, os.stat_result] | None:
    """Return a file with this sha256; None if no version has it."""
    for path in versions.find_files(sha256):
        try:
            return path, path.stat()
        except FileNotFoundError:  # pruned meanwhile; another version may have it as well
            continue
    return None


def tag_headers(sha256: str) -> dict[str, str]:
    """Return the headers of what this sha256 identifies."""
    return {"ETag": f'"{sha256}"', "Cache-Control": CACHE_CONTROL}
