"""Paths under /v1 that no other route matches: of OpenAI's, or of TensorFlow Serving's, whose error all the others get."""

from fastapi import APIRouter, Request, Response

from online.api.openai.paths import is_meant_for_openai, unserved
from online.api.tensorflow.errors import malformed

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]

router = APIRouter()


@router.api_route("/v1/{path:path}", methods=METHODS, include_in_schema=False)
async def refuse_path(request: Request) -> Response:
    raise unserved(request) if is_meant_for_openai(request) else malformed(request)
