"""Sends files that a client may have already.

A file has an ETag. A client that has it sends the ETag as If-None-Match and gets 304 without the file.
"""

from collections.abc import Mapping
from pathlib import Path

from fastapi import Request, Response
from fastapi.responses import FileResponse

from online.api.web.rendered_files import matches
from online.schemas.fields import ErrorAnswer
from online.schemas.json_values import JSONObject

BINARY, JSON = "application/octet-stream", "application/json"
CACHE_CONTROL = "private, no-cache"  # kept by the browser, and used after the ETag was compared
SCHEMAS = {BINARY: {"type": "string", "format": "binary"}, JSON: {"type": "object"}}
WAITING: dict[int | str, JSONObject] = {
    429: {"model": ErrorAnswer, "description": "Too many requests wait for such a file already."}
}


def describe_file(description: str = "The file.", media_type: str = BINARY) -> dict[int | str, JSONObject]:
    """Return the responses of a route that sends a file, for the OpenAPI document."""
    return {
        200: {"content": {media_type: {"schema": SCHEMAS[media_type]}}, "description": description},
        304: {"description": "If-None-Match names what would be sent."},
    }


def send_file(
    request: Request,
    file: Path | bytes,
    tag: str,
    headers: Mapping[str, str],
    media_type: str = BINARY,
    filename: str | None = None,
) -> Response:
    """Return the file, or 304. tag: changes with its bytes. filename: for the folder of downloads."""
    if known := answer_known(request, tag, headers):
        return known
    tagged = tag_headers(tag, headers)
    if isinstance(file, Path):
        return FileResponse(file, headers=tagged, media_type=media_type, filename=filename)
    return Response(file, headers=tagged, media_type=media_type)


def answer_known(request: Request, tag: str, headers: Mapping[str, str]) -> Response | None:
    """304 for a client that has what the tag names; else None. It is worth asking before the file is computed."""
    if matches(request.headers.get("if-none-match", ""), f'"{tag}"'):
        return Response(status_code=304, headers=tag_headers(tag, headers))
    return None


def tag_headers(tag: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with which a client may ask for changes only."""
    return {"ETag": f'"{tag}"', "Cache-Control": CACHE_CONTROL, **headers}
