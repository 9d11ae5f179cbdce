"""The response object of OpenAI's Responses API, and its output items.

settings of the request, status, usage
output: reasoning | message (output_text, refusal) | function_call, ...
"""

import time
from collections.abc import Iterator

from pydantic_core import to_json

from online.plugins.openai.responses_schemas import ResponseRequest
from online.schemas.json_values import JSON, JSONObject

ID_PREFIX = "resp_"  # of the id of a response
PREFIXES = {"reasoning": "rs", "message": "msg", "function_call": "fc"}  # of the ids of items
TEXT_MEMBERS = {"reasoning_text": "text", "output_text": "text", "refusal": "refusal"}  # by the type of a part
LENGTH_REASONS = ("length", "model_length", "max_tokens")
FAILURE_REASONS = ("error", "insufficient_system_resource")


def begin_response(parsed: ResponseRequest, id: str) -> JSONObject:
    """Return a response that is in progress, with the settings of its request."""
    asked = parsed.model_dump(by_alias=True, exclude_none=True)
    text = {"format": {"type": "text"}} | asked.get("text", {})
    tools = [{"description": None, "parameters": None, "strict": None} | tool for tool in asked.get("tools", ())]
    return {
        "id": id,
        "object": "response",
        "created_at": int(time.time()),
        "completed_at": None,
        "status": "in_progress",
        "incomplete_details": None,
        "error": None,
        "model": parsed.model,
        "output": [],
        "usage": None,
        "instructions": parsed.instructions,
        "max_output_tokens": parsed.max_output_tokens,
        "max_tool_calls": None,
        "metadata": asked.get("metadata", {}),
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None} | asked.get("reasoning", {}),
        "background": False,
        "store": False,
        "service_tier": "default",
        "text": text,
        "tools": tools,
        "tool_choice": asked.get("tool_choice", "auto"),
        "truncation": "disabled",
        "temperature": asked.get("temperature", 1.0),
        "top_p": asked.get("top_p", 1.0),
        "top_logprobs": asked.get("top_logprobs", 0),
        "presence_penalty": asked.get("presence_penalty", 0.0),
        "frequency_penalty": asked.get("frequency_penalty", 0.0),
        "user": parsed.user if isinstance(parsed.user, str) else None,
        "safety_identifier": parsed.safety_identifier,
    }


def describe_end(reason: str) -> JSONObject:
    """Return the status of a response, and why it is not completed. reason: why the chat completion has ended."""
    if reason in FAILURE_REASONS:
        return {"status": "failed", "error": create_error(f"the model ended its answer with {reason!r}")}
    is_filtered = reason.startswith("content_filter")  # some vendors append what was found
    if is_filtered or reason in LENGTH_REASONS:
        why = "content_filter" if is_filtered else "max_output_tokens"
        return {"status": "incomplete", "incomplete_details": {"reason": why}}
    return {"status": "completed", "completed_at": int(time.time())}


def create_error(message: str, is_limit: bool = False) -> JSONObject:
    """Return the error of a response that has failed. is_limit: because of a rate limit."""
    return {"code": "rate_limit_exceeded" if is_limit else "server_error", "message": message}


def create_item(kind: str, key: str, **members: JSON) -> JSONObject:
    """Return an output item that is in progress. key: it differs from item to item."""
    return {"id": f"{PREFIXES[kind]}_{key}", "type": kind, "status": "in_progress", **members}


def create_part(kind: str, text: str) -> JSONObject:
    """Return a part of an item's content."""
    more: JSONObject = {"annotations": [], "logprobs": []} if kind == "output_text" else {}
    return {"type": kind, TEXT_MEMBERS[kind]: text, **more}


def read_texts(delta: JSONObject) -> Iterator[tuple[str, str]]:
    """Yield the type and the text of each part in a message or a delta of a chat completion, reasoning first.

    Endpoints put reasoning into `reasoning_content` or `reasoning`, or into parts of the content.
    """
    reasoning = delta.get("reasoning_content") or delta.get("reasoning")
    content = delta.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [("reasoning_text", reasoning)]
    for part in parts:
        if isinstance(part, dict) and part.get("type") == "thinking":
            thoughts = part.get("thinking")
            inner = thoughts if isinstance(thoughts, list) else [{"text": thoughts}]
            texts += [("reasoning_text", each.get("text")) for each in inner if isinstance(each, dict)]
        elif isinstance(part, dict):
            texts.append(("output_text", part.get("text")))
    texts.append(("refusal", delta.get("refusal")))
    yield from ((kind, text) for kind, text in texts if isinstance(text, str) and text)


def read_arguments(arguments: JSON) -> str:
    """Return the arguments of a call as text; some endpoints give an object."""
    return arguments if isinstance(arguments, str) else to_json(arguments).decode() if arguments else ""


def read_logprobs(choice: JSONObject) -> list[JSONObject]:
    """Return the log probabilities of the tokens of a text."""
    found = choice.get("logprobs")
    tokens = found.get("content") if isinstance(found, dict) else None
    return [_fill_token(token) for token in tokens or ()]


def _fill_token(token: JSONObject) -> JSONObject:
    others = [{**each, "bytes": each.get("bytes") or []} for each in token.get("top_logprobs") or ()]
    return {**token, "bytes": token.get("bytes") or [], "top_logprobs": others}


def find_usage(content: JSONObject) -> JSONObject | None:
    """Return the usage of a chat completion or of a chunk, also where Groq and Moonshot put it."""
    choices = content.get("choices") or [None]
    holders = (content, content.get("x_groq"), choices[0])
    found = (holder.get("usage") for holder in holders if isinstance(holder, dict))
    return next((usage for usage in found if isinstance(usage, dict) and usage), None)


def translate_usage(usage: JSONObject | None) -> JSONObject | None:
    """Return the usage of a response; None where the endpoint gives none."""
    if usage is None:
        return None
    tokens_in, tokens_out = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    read, written = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
    cached = read.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or usage.get("cached_tokens") or 0
    return {
        "input_tokens": tokens_in,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": read.get("cache_write_tokens") or 0},
        "output_tokens": tokens_out,
        "output_tokens_details": {"reasoning_tokens": written.get("reasoning_tokens") or 0},
        "total_tokens": usage.get("total_tokens") or tokens_in + tokens_out,
    }
