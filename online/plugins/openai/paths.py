"""OpenAI's paths: which are served here, and what the others are answered with: 404, in OpenAI's shape, with those that are.

/v1/chat/completions, /v1/responses, /v1/models    served
/v1/embeddings, /v1/responses/x, /v1/files/x       unserved
/v1/replays, /v1/anything                          no paths of OpenAI
"""

from fastapi import Request

from online.errors import NotFound, NotServed
from online.plugins.openai.completions import RefusedChat
from online.schemas.json_values import JSONObject

COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/responses"
SERVED = f"POST {COMPLETIONS}, POST {RESPONSES}, GET /v1/models and GET /v1/models/{{model}}"
FIRST_PARTS = frozenset(  # of OpenAI's paths under /v1, without `models`: these routes are shared (shared_routes.py)
    name
    for line in (
        "agents assistants audio batches chat chatkit completions containers content_provenance_checks",
        "conversations decisions edits embeddings engines evals files fine-tunes fine_tuning images live",
        "moderations organization projects realtime responses safety skills threads uploads vaults",
        "vector_stores videos webhook_endpoints webhook_event_types",
    )
    for name in line.split()
)
SDK_HEADER = "x-stainless-lang"  # which OpenAI's clients send in every language


def is_openais(path: str) -> bool:
    """Return whether a path is one of OpenAI's alone. path: with or without the prefix of a proxy."""
    return path.partition("/v1/")[2].partition("/")[0] in FIRST_PARTS


def is_meant_for_openai(request: Request) -> bool:
    """Return whether a request that no route matches is one to OpenAI: by its path, or by the client that sends it."""
    return is_openais(request.url.path) or SDK_HEADER in request.headers


def unserved(request: Request) -> NotServed:
    """Return the error of a path of OpenAI's that is not served."""
    return NotServed(
        f"{request.method} {request.url.path[:200]} is not served here; of OpenAI's API this service has {SERVED}"
    )


def describe_error(request: Request, status: int, text: str, error: Exception) -> JSONObject | None:
    """Return an error as OpenAI's clients expect it, on OpenAI's paths; None on all others."""
    if not isinstance(error, NotServed) and not is_openais(request.url.path):
        return None
    if isinstance(error, RefusedChat):
        return error.content
    kind = "invalid_request_error" if status < 500 else "server_error"
    param, code = ("model", "model_not_found") if isinstance(error, NotFound) else (None, None)
    return {"error": {"message": text, "type": kind, "param": param, "code": code}}
