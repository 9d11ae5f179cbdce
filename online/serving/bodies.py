"""How a request's body is read, by every door: no more bytes than may be, JSON no deeper than may be, as a schema says."""

from typing import TypeVar

import msgspec
import numpy as np
from fastapi import Request
from pydantic import BaseModel, ValidationError

from online.errors import BadInput, TooLarge
from online.models.encoder import Numbers
from online.schemas import PredictRequest
from online.settings import Settings, describe

T = TypeVar("T", bound=BaseModel)


class Rows(msgspec.Struct, forbid_unknown_fields=True):
    """What most who ask a model of numbers send: rows, and nothing else that would have to be looked at."""

    instances: list[msgspec.Raw]
    record: bool = True


ROWS = msgspec.json.Decoder(Rows)
NUMBERS = msgspec.json.Decoder(list[float])

REST = bytes(set(range(256)) - set(b'[]{}"'))
STEPS = np.array([{"[": 1, "{": 1, "]": -1, "}": -1}.get(chr(mark), 0) for mark in range(256)], np.int8)


async def read_body(request: Request, settings: Settings) -> bytes:
    """Raises TooLarge; never reads more than `max_body_bytes`."""
    told, limit = request.headers.get("content-length", "0"), settings.max_body_bytes
    if told.isdigit() and int(told) > limit:
        raise TooLarge(f"the body has {told} bytes; at most {limit} are read (max_body_bytes)")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise TooLarge(f"the body has more than {limit} bytes (max_body_bytes)")
    return bytes(body)


async def read_json(request: Request, settings: Settings) -> bytes:
    """The body, for whoever parses it. Raises TooLarge."""
    return checked_depth(await read_body(request, settings), settings)


async def body_as(request: Request, kind: type[T], settings: Settings) -> T:
    """The body as `kind`. Raises TooLarge or BadInput."""
    try:
        return kind.model_validate_json(await read_json(request, settings))
    except ValidationError as error:
        raise BadInput(describe(error)) from None


def rows_of(body: bytes) -> PredictRequest | None:
    """Of a body that is nothing but rows of numbers, in less than half of the time that the parser for all others takes; None
    for any other, be it right or wrong.
    """
    try:
        rows = ROWS.decode(body)
        instances = [Numbers(NUMBERS.decode(row), bytes(row).decode()) for row in rows.instances]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return PredictRequest.model_validate({"instances": instances, "record": rows.record}) if instances else None


def checked_depth(document: bytes, settings: Settings) -> bytes:
    """The document, if its first value nests no deeper than `max_json_depth`. Raises TooLarge, before it is parsed."""
    most = settings.max_json_depth
    if document.count(b"[") + document.count(b"{") > most and depth_of(document) > most:
        raise TooLarge(f"the JSON nests deeper than {most} levels (max_json_depth)")
    return document


def depth_of(document: bytes) -> int:
    """Of the first value in it; [[1]] has two levels. What is no JSON has some depth too: that is for the parser to say."""
    if b"\\" in document:
        document = document.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = np.frombuffer(document.translate(None, REST), np.uint8)
    in_text = (marks == ord('"')).cumsum(dtype=np.int32) & 1
    levels = np.where(in_text, 0, STEPS[marks]).cumsum(dtype=np.int32)
    ends = np.flatnonzero((levels <= 0) & (STEPS[marks] < 0))
    return int(levels[: ends[0] if ends.size else None].max(initial=0))
