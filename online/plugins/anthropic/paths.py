"""Anthropic's paths, and the shape of the errors on them.

/v1/messages, /v1/messages/count_tokens    served
/v1/messages/batches                       unserved: 404 in Anthropic's shape, with those that are
"""

from fastapi import Request

from online.errors import NotServed
from online.schemas.json_values import JSONObject

MESSAGES = "/v1/messages"
COUNT_TOKENS = f"{MESSAGES}/count_tokens"
VERSION_HEADER = "anthropic-version"  # which Anthropic's clients send in every language
ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


def is_anthropics(request: Request) -> bool:
    """Return whether a request is one to Anthropic's API: by its path, or by the client that sends it."""
    first = request.url.path.partition("/v1/")[2].partition("/")[0]
    return first == "messages" or VERSION_HEADER in request.headers


def unserved(request: Request) -> NotServed:
    """Return the error of a path of Anthropic's that is not served."""
    served = f"POST {MESSAGES}, POST {COUNT_TOKENS} and GET /v1/models"
    return NotServed(
        f"{request.method} {request.url.path[:200]} is not served here; of Anthropic's API this service has {served}"
    )


def describe_error(status: int, text: str) -> JSONObject:
    """Return an error as Anthropic's clients expect it."""
    kind = ERROR_TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
    return create_error(kind, text)


def create_error(kind: str, text: str) -> JSONObject:
    """Return an error of a type in Anthropic's shape."""
    return {"type": "error", "error": {"type": kind, "message": text}}
