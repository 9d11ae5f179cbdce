"""Paths under /v1 that no other route matches: of OpenAI's, or of TensorFlow Serving's, whose error all the others get."""

from fastapi import Request, Response

from online.api.openai.paths import is_meant_for_openai, unserved
from online.api.routes import ANY_METHOD, Router
from online.api.tensorflow.errors import malformed

router = Router()


@router.add(ANY_METHOD, "/v1/{path:path}", "anybody", include_in_schema=False)
async def refuse_path(request: Request) -> Response:
    raise unserved(request) if is_meant_for_openai(request) else malformed(request)
