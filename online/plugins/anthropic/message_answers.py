"""Anthropic's messages of chat completions that are whole, and what streamed ones have in common with them.

reasoning_content, content, refusal, tool_calls --> blocks: thinking, text, tool_use
finish_reason ------------------------------------> stop_reason
usage --------------------------------------------> usage, with the cached tokens apart
"""

from typing import NamedTuple

from pydantic_core import from_json

from online.errors import OnlineError
from online.plugins.anthropic.chat_bodies import to_tokens
from online.schemas.json_values import JSON, JSONObject

STOP_REASONS = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
    **dict.fromkeys(("abort", "error", "insufficient_system_resource"), "max_tokens"),  # the answer is not complete
}
OWN_FIELDS = ("system_fingerprint", "feedback_url")  # of an answer, which Anthropic's does not have


class UnreadableCall(OnlineError):
    """A language model has called a tool with arguments that are no JSON object."""

    status = 502


class MessageOptions(NamedTuple):
    """The parts of a request that its answer needs. input_tokens: estimated."""

    model: str
    stop_sequences: list[str]
    input_tokens: int


def translate_completion(completion: JSONObject, options: MessageOptions) -> JSONObject:
    """Return the message of a whole chat completion. Raises UnreadableCall."""
    choice = find_choice(completion)
    message = choice.get("message") or {}
    blocks = [{"type": "thinking", "thinking": text, "signature": ""} for text in find_reasoning(message)]
    refusal = message.get("refusal")
    blocks += [{"type": "text", "text": text} for text in (read_text(message.get("content")), refusal) if text]
    calls = [call for call in message.get("tool_calls") or () if isinstance(call, dict)]
    blocks += [translate_call(call, name_call(completion["id"], place)) for place, call in enumerate(calls)]
    reason, sequence = choose_stop_reason(choice, options, bool(calls), bool(refusal))
    chars = sum(len(str(block.get("thinking") or block.get("text") or block.get("input"))) for block in blocks)
    return {
        **start_message(completion, options),
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": translate_usage(completion.get("usage"), options, chars),
    }


def start_message(answer: JSONObject, options: MessageOptions) -> JSONObject:
    """Return a message without contents. answer: a completion, or the first chunk of one."""
    own = {name: answer[name] for name in OWN_FIELDS if answer.get(name)}
    head = {"id": answer["id"], "type": "message", "role": "assistant", "model": answer.get("model") or options.model}
    return {**head, "content": [], "stop_reason": None, "stop_sequence": None, **own}


def find_choice(answer: JSONObject) -> JSONObject:
    """Return the first choice of a completion or of a chunk; an empty object where there is none."""
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def find_reasoning(message: JSONObject) -> list[str]:
    """Return the reasoning of a message or of a delta; endpoints that send it under both names repeat it."""
    texts = (message.get(name) for name in ("reasoning_content", "reasoning"))
    return [text for text in texts if isinstance(text, str) and text][:1]


def read_text(content: JSON) -> str:
    """Return the text of a content, which may be a list of parts."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""


def name_call(message_id: str, place: int) -> str:
    """Return an id for a call of a tool that has none."""
    return f"toolu_{message_id.removeprefix('msg_')}_{place}"


def translate_call(call: JSONObject, default_id: str) -> JSONObject:
    """Return a call of a tool as a block; of arguments that are cut, what is complete. Raises UnreadableCall."""
    function = call.get("function") or {}
    name, arguments = function.get("name"), function.get("arguments") or "{}"
    try:
        parsed = from_json(arguments, allow_partial=True)
    except (TypeError, ValueError):
        parsed = None
    if not isinstance(name, str) or not isinstance(parsed, dict):
        raise UnreadableCall(
            f"the language model has called the tool {str(name)[:80]!r} with arguments that are no JSON object; ask again"
        )
    return {"type": "tool_use", "id": call.get("id") or default_id, "name": name, "input": parsed}


def choose_stop_reason(
    choice: JSONObject, options: MessageOptions, has_calls: bool, is_refused: bool
) -> tuple[str, str | None]:
    """Return why an answer ended, and the sequence that stopped it, where the endpoint says so (as vLLM and SGLang do)."""
    if is_refused:
        return "refusal", None
    reason = STOP_REASONS.get(str(choice.get("finish_reason")), "end_turn")
    if reason != "end_turn":
        return reason, None
    if has_calls:  # some endpoints say `stop` then
        return "tool_use", None
    matched = choice.get("stop_reason") or choice.get("matched_stop")
    return ("stop_sequence", matched) if matched in options.stop_sequences else ("end_turn", None)


def translate_usage(usage: JSON, options: MessageOptions, chars_out: int) -> JSONObject:
    """Return the tokens of an answer; those that the endpoint does not count are estimated. chars_out: of the answer."""
    found = usage if isinstance(usage, dict) else {}
    details = found.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else found.get("prompt_cache_hit_tokens")
    counted = [found.get("prompt_tokens"), found.get("completion_tokens"), cached]
    tokens_in, tokens_out, cached = (count if isinstance(count, int) else None for count in counted)
    tokens_in = options.input_tokens if tokens_in is None else tokens_in
    cached = min(cached or 0, tokens_in)
    return {
        "input_tokens": tokens_in - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": to_tokens(chars_out) if tokens_out is None else tokens_out,
    }
