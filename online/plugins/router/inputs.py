"""The input of a router: the numbers of a question's text, and plain facts about the request around it.

    text int8 [384] | plain int8 [16] | explore uint8, 3 spare | held uint32 | group uint64 | excluded uint32 [k]

A text alone is a valid input, with nothing known about its request. Names of routes and groups are in it as hashes: the
input says for itself which routes could be chosen, so a decision can be repeated and judged from the log.

held: the route that answered the conversation so far. group: the team or user with preferences of their own. excluded: routes
that cannot answer this request. explore: the share of such questions that tries other routes, in thousandths.
"""

import hashlib
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Encoder
from online.models.encoders.text import TEXT_WIDTH, require_text
from online.schemas.json_values import JSON, JSONObject

PLAIN = (  # names of the plain numbers; each is about 0 to 2, stored in steps of 1 / PLAIN_SCALE
    "length",
    "context",
    "turns",
    "tools",
    "images",
    "json",
    "code",
    "digits",
    "symbols",
    "other_script",
    "lines",
    "question",
    "max_tokens",
    "task",
    "spare_1",
    "spare_2",
)
PLAIN_SCALE = 60
TAIL = struct.Struct(f"<{len(PLAIN)}bB3xIQ")
DEFAULT_EXPLORE = 255  # of the byte `explore`: as the options say
HASH = struct.Struct("<I")
CHARS_PER_TOKEN = 4.0  # of English text
MOST_EXCLUDED = 256
CODE = re.compile(
    r"```|[{};][ \t]*$|^[ \t]*(?:def|class|import|from|return|function|const|let|#include|SELECT)\b", re.MULTILINE
)
INPUT_VERSION = 1  # of the bytes: increase it when the same request gives others


@lru_cache(maxsize=4_096)  # each route is looked up for each request
def hash_route(name: str) -> int:
    """Return the number by which inputs name a route; never 0, which stands for none."""
    return HASH.unpack(hashlib.sha256(name.encode()).digest()[:4])[0] or 1


def hash_group(name: str) -> int:
    """Return the number by which inputs name a team or a user; 0 for none."""
    return int.from_bytes(hashlib.sha256(b"group\0" + name.encode()).digest()[:8], "little") or 1 if name else 0


@dataclass(frozen=True, slots=True)
class RoutedInput:
    """One input, parsed. plain_P: in steps of 1 / PLAIN_SCALE. explore: None as the options say."""

    text_D: NDArray[np.int8]
    plain_P: NDArray[np.int8]
    explore: float | None = None
    held: int = 0
    group: int = 0
    excluded: frozenset[int] = field(default_factory=frozenset)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Return the input of its bytes. Raises ValueError for bytes of another length."""
        text_D = np.frombuffer(data, np.int8, TEXT_WIDTH) if len(data) >= TEXT_WIDTH else None
        rest = data[TEXT_WIDTH:]
        if text_D is None or (rest and (len(rest) < TAIL.size or (len(rest) - TAIL.size) % HASH.size)):
            raise ValueError(f"an input of a router has {TEXT_WIDTH} bytes, or more with its request, not {len(data)}")
        if not rest:
            return cls(text_D, np.zeros(len(PLAIN), np.int8))
        *plain, explore, held, group = TAIL.unpack_from(rest)
        excluded = frozenset(each for (each,) in HASH.iter_unpack(rest[TAIL.size :]))
        share = None if explore == DEFAULT_EXPLORE else explore / 1_000
        return cls(text_D, np.array(plain, np.int8), share, held, group, excluded)

    def pack_tail(self) -> bytes:
        """Return the bytes that follow those of the text."""
        explore = DEFAULT_EXPLORE if self.explore is None else min(round(self.explore * 1_000), DEFAULT_EXPLORE - 1)
        head = TAIL.pack(*self.plain_P.tolist(), explore, self.held, self.group)
        return head + b"".join(map(HASH.pack, sorted(self.excluded)))


class StatedFacts(dict[str, JSON]):
    """The facts of a request that the service itself states. Callers state theirs as plain objects, which may not name a group."""


def measure(text: str, facts: JSONObject) -> NDArray[np.int8]:
    """Return the plain numbers of a question [16]. facts: of its request, as `RouterEncoder` reads them."""
    count = max(len(text), 1)
    numbers = {
        "length": np.log2(1 + len(text)) / 8,
        "context": np.log2(1 + float(facts.get("context_chars") or len(text))) / 10,
        "turns": np.log2(1 + float(facts.get("turns") or 0)) / 3,
        "tools": np.log2(1 + float(facts.get("tools") or 0)) / 3,
        "images": min(float(facts.get("images") or 0), 2.0),
        "json": float(bool(facts.get("json"))),
        "code": min(len(CODE.findall(text)) / 3, 2.0),
        "digits": 4 * sum(map(str.isdigit, text)) / count,
        "symbols": 4 * sum(each in "+-*/=<>^$%\\|~" for each in text) / count,
        "other_script": sum(ord(each) > 0x24F for each in text) / count,
        "lines": np.log2(1 + text.count("\n")) / 4,
        "question": float("?" in text),
        "max_tokens": np.log2(1 + float(facts.get("max_tokens") or 0)) / 8,
        "task": float(bool(facts.get("task"))),
    }
    scaled_P = [round(PLAIN_SCALE * float(numbers.get(name, 0.0))) for name in PLAIN]
    return np.clip(scaled_P, -127, 127).astype(np.int8)


class RouterEncoder:
    """Encodes questions with their requests: a text, or {"text": ..., "turns": 3, "exclude": ["route"], ...}."""

    def __init__(self, text: Encoder, max_chars: int) -> None:
        """text: the encoder of the texts. max_chars: the longest question."""
        self.text, self.max_chars = text, max_chars
        self.epoch, self.is_slow, self.quick_chars = router_epoch(text.epoch), text.is_slow, text.quick_chars

    def encode(self, instances: Sequence[object]) -> list[bytes]:
        """Return the bytes of each instance. Raises ValueError that names the instance and the cause."""
        texts = [require_text(each, place, self.max_chars) for place, each in enumerate(instances)]
        tails = [
            build_tail(text, each if isinstance(each, dict) else {}, place)
            for place, (text, each) in enumerate(zip(texts, instances, strict=True))
        ]
        return [head + tail for head, tail in zip(self.text.encode(texts), tails, strict=True)]


def router_epoch(text_epoch: str) -> str:
    """Return the name of the mapping from instances to bytes, with this one of texts."""
    return f"router-{INPUT_VERSION}-{text_epoch}"


def build_tail(text: str, facts: JSONObject, place: int) -> bytes:
    """Return the bytes of a request's facts. Raises ValueError for facts of a wrong type."""
    exclude, explore = facts.get("exclude") or [], facts.get("explore")
    names = (facts.get("held") or "", facts.get("group") or "")
    if facts.get("group") and not isinstance(facts, StatedFacts):
        raise ValueError(f"instance {place}: group is set by the service, from the user of a chat; leave it out")
    if not isinstance(exclude, list) or len(exclude) > MOST_EXCLUDED:
        raise ValueError(f"instance {place}: exclude must be a list of at most {MOST_EXCLUDED} names")
    if not all(isinstance(each, str) for each in [*exclude, *names]):
        raise ValueError(f"instance {place}: exclude must be a list of names, held and group must be names")
    if explore is not None and not (isinstance(explore, (int, float)) and 0 <= explore < 0.255):
        raise ValueError(f"instance {place}: explore must be a share below 0.255, not {explore!r}")
    held = hash_route(names[0]) if names[0] else 0
    try:
        plain_P = measure(text, facts)
    except (TypeError, ValueError):
        raise ValueError(f"instance {place}: the facts of a request must be numbers, true or false") from None
    empty = np.zeros(0, np.int8)
    excluded = frozenset(map(hash_route, exclude))
    return RoutedInput(empty, plain_P, explore, held, hash_group(names[1]), excluded).pack_tail()
