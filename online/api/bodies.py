"""Reading request bodies, in every protocol: the limits on bytes and on the form of JSON, then a schema.

    its length --> the minute's bytes --> its turn, if it is large --> depth, lists and objects --> rows, or a schema
    (all before it is read, where its length is announced)

While a body is parsed nobody else is answered, so what would take long is refused first, or is parsed in pieces.

A field that a native schema does not have is refused, with the field that was probably intended:
"unknown field 'min_offest'; did you mean 'min_offset'?"
"""

import asyncio
import difflib
from collections.abc import AsyncIterator, Iterator
from typing import TypeVar, get_args

import msgspec
import numpy as np
from fastapi import Request
from numpy.typing import NDArray
from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from online.api.auth.authentication import CALLER
from online.api.middleware.content_codings import DECODED
from online.errors import BadInput, TooLarge
from online.models.encoders.rows import ParsedNumbers
from online.schemas.json_values import JSONObject
from online.schemas.predict import PredictRequest
from online.serving.rates import LARGE_BYTES, RateLimits
from online.settings import Settings
from online.settings.messages import plain_message

T = TypeVar("T", bound=BaseModel)

MAX_ECHO_CHARS = 80  # of an unknown field's name, in an error
# lists and objects of a document: one of 990,000 lists takes a second to parse
MIN_PARTS, PARTS_PER_INSTANCE = 8_192, 8


class RowsBody(msgspec.Struct, forbid_unknown_fields=True):
    """The most frequent body sent to a model of vectors: rows of numbers, and no other options.

    Numbers beyond float64 are refused by the decoder, so every number is finite.
    """

    instances: list[list[float]]
    record: bool = True


DecodedRows = tuple[list[list[float]], list[bytes]]  # and the JSON of each; none if they are not to be recorded
ROWS, ROW = msgspec.json.Decoder(RowsBody), msgspec.json.Decoder(list[float])

SPACE = b" \t\n\r"  # between the values of JSON
NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
STEPS = np.array([{"[": 1, "{": 1, "]": -1, "}": -1}.get(chr(mark), 0) for mark in range(256)], np.int8)


# reading


async def read_body(request: Request, settings: Settings) -> bytes:
    """Return the body. Raises TooLarge; at most `max_body_bytes` are read."""
    return await read_bytes(request, settings.max_body_bytes, "max_body_bytes")


async def read_bytes(request: Request, limit: int, setting: str) -> bytes:
    """Return the body. Raises TooLarge, which names the setting of the limit; no more than that is read."""
    announced = announced_bytes(request)
    if announced > limit:
        raise TooLarge(f"the body has {announced} bytes; at most {limit} are read ({setting})")
    body = bytearray()
    async for chunk in read_chunks(request):
        body += chunk
        if len(body) > limit:
            decoded = f" when it is decoded from {codings}" if (codings := request.scope.get(DECODED)) else ""
            raise TooLarge(f"the body has more than {limit} bytes{decoded} ({setting})")
    return bytes(body)


async def read_chunks(request: Request) -> AsyncIterator[bytes]:
    """Yield the pieces of the body, counted before they are read where their number is announced. Raises QuotaExceeded.

    A large body waits for its turn before it is read, and one of unknown length while it is.
    """
    rates: RateLimits = request.app.state.rates
    caller, announced = request.scope[CALLER], announced_bytes(request)
    rates.check(caller, bytes=announced)
    if announced > LARGE_BYTES:
        await asyncio.sleep(rates.take_turn(caller, announced))
    count = 0
    async for chunk in request.stream():
        count += len(chunk)
        if not announced:
            rates.check(caller, bytes=len(chunk))
            if count > LARGE_BYTES:
                await asyncio.sleep(rates.take_turn(caller, len(chunk)))
        yield chunk


def announced_bytes(request: Request) -> int:
    """Return how long the body is, as its sender says; 0 where it is sent in chunks, or in another coding."""
    announced = request.headers.get("content-length", "")
    return int(announced) if announced.isdigit() else 0


async def read_json(request: Request, settings: Settings) -> bytes:
    """Return the body, checked for its form and not parsed yet. Raises TooLarge."""
    return await check_json(await read_body(request, settings), settings)


async def read_body_as(request: Request, schema: type[T], settings: Settings) -> T:
    """Return the body as an instance of `schema`. Raises TooLarge or BadInput."""
    return parse_as(await read_json(request, settings), schema)


def parse_as(body: bytes, schema: type[T]) -> T:
    """Parse a body as a type of msgspec. Raises BadInput."""
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        raise invalid_body(error, schema) from None


async def parse_rows(body: bytes, user: str | None) -> PredictRequest | None:
    """Return the request in a body of nothing but rows of numbers; None for any other body, valid or not.

    user: on whose behalf it is made. It takes less than half the time of the general parser.
    """
    decoded = decode_rows(body) if len(body) <= LARGE_BYTES else await decode_large_rows(body)
    if decoded is None:
        return None
    rows, texts = decoded
    instances = [*map(ParsedNumbers, rows, texts or [b""] * len(rows))]
    return PredictRequest.model_validate({"instances": instances, "record": bool(texts), "user": user})


def decode_rows(body: bytes) -> DecodedRows | None:
    """Return the rows in a body of nothing but rows of numbers; None for any other body, valid or not."""
    try:
        decoded = ROWS.decode(body)
    except msgspec.MsgspecError:
        return None
    rows = decoded.instances
    texts = split_rows(body, len(rows)) if decoded.record else []
    if not rows or len(texts) < len(rows) * decoded.record:
        return None
    return rows, texts


async def decode_large_rows(body: bytes) -> DecodedRows | None:
    """Return what `decode_rows` returns; other requests are answered between the rows."""
    start, end = body.find(b"[") + 1, body.rfind(b"]")
    try:
        record = ROWS.decode(body[:start] + body[end:]).record
        rows, texts, decoded = list[list[float]](), list[bytes](), 0
        for text in cut_rows(body, start, end):
            rows.append(ROW.decode(text))
            texts.append(text)
            if (decoded := decoded + len(text)) > LARGE_BYTES:
                decoded = 0
                await asyncio.sleep(0)
    except (ValueError, msgspec.MsgspecError):
        return None
    return (rows, texts if record else []) if rows else None


def cut_rows(body: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield the text of each list between two places of a body. Raises ValueError where anything but a comma is between two."""
    separator = b""
    while begin := body.find(b"[", start, end) + 1:
        if body[start : begin - 1].strip(SPACE) != separator:
            raise ValueError("there is something between two rows")
        start = body.index(b"]", begin, end) + 1
        yield body[begin - 1 : start]
        separator = b","
    if body[start:end].strip(SPACE):
        raise ValueError("there is something behind the last row")


def split_rows(body: bytes, count: int) -> list[bytes]:
    """Return the text of each row of a body that was decoded as rows of numbers; empty if it has further brackets.

    Strings have none: the only ones are the names of the two fields. A field that is repeated has.
    """
    start, texts = body.index(b"[") + 1, list[bytes]()
    for _ in range(count):
        begin = body.find(b"[", start)
        start = body.find(b"]", begin) + 1
        texts.append(body[begin:start])
    return texts if body.find(b"[", start) < 0 else []


# form


async def check_json(document: bytes, settings: Settings) -> bytes:
    """Return what `check_form` returns and raises; off the event loop, if the document is long."""
    if len(document) > LARGE_BYTES:
        return await asyncio.to_thread(check_form, document, settings)
    return check_form(document, settings)


def check_form(document: bytes, settings: Settings) -> bytes:
    """Return the document, if its first value nests at most `max_json_depth` levels, and it has few enough lists and objects.

    Raises TooLarge, before it is parsed: the time that takes depends on their number, more than on that of the bytes.
    """
    most, most_parts = settings.max_json_depth, max(MIN_PARTS, PARTS_PER_INSTANCE * settings.max_instances)
    count = document.count(b"[") + document.count(b"{")  # also those in texts
    if count > most and measure_depth(document) > most:
        raise TooLarge(f"the JSON nests deeper than {most} levels (max_json_depth)")
    if count > most_parts and count_parts(document) > most_parts:
        raise TooLarge(f"the JSON has more than {most_parts} lists and objects; send fewer at a time (max_instances)")
    return document


def measure_depth(document: bytes) -> int:
    """Return the depth of the first value of a document; [[1]] has two levels.

    Invalid JSON is left to the parser.
    """
    return int(find_steps(document).cumsum(dtype=np.int32).max(initial=0))


def count_parts(document: bytes) -> int:
    """Return the number of lists and objects of the first value of a document."""
    return int(np.count_nonzero(find_steps(document) > 0))


def find_steps(document: bytes) -> NDArray[np.int8]:
    """Return the steps of the first value: 1 where a list or an object opens, -1 where one closes, 0 for quotes and what is in texts."""
    if b"\\" in document:
        document = document.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = np.frombuffer(document.translate(None, NOT_STRUCTURE), np.uint8)
    in_text = (marks == ord('"')).cumsum(dtype=np.int32) & 1
    steps = np.where(in_text, np.int8(0), STEPS[marks])
    ends = np.flatnonzero((steps.cumsum(dtype=np.int32) <= 0) & (steps < 0))
    return steps[: ends[0] if ends.size else None]


def parse_leniently(body: bytes) -> object:
    """Return the JSON value in a body, for the protocols of other servers: NaN and Infinity are numbers. Raises ValueError."""
    try:
        return from_json(body)
    except ValueError as error:
        if "trailing characters" not in str(error):
            raise
        raise ValueError(f"{error}: the body is one JSON value and nothing after it") from None


# errors


def invalid_body(error: ValidationError, schema: type[BaseModel]) -> BadInput:
    """Return one sentence for each finding: where it is, what is wrong, and the name that was probably meant."""
    return BadInput("; ".join(_describe_finding(dict(finding), schema) for finding in error.errors()))


def _describe_finding(finding: JSONObject, schema: type[BaseModel]) -> str:
    place = [str(part) for part in finding["loc"]]
    if finding["type"] != "extra_forbidden":
        return f"{'.'.join(place) or 'document'}: {plain_message(finding['msg'])}"
    *parents, name = place
    where = f"{'.'.join(parents)}: " if parents else ""
    return f"{where}unknown field {name[:MAX_ECHO_CHARS]!r}{suggest(name, known_fields(schema, parents))}"


def suggest(name: str, known: list[str]) -> str:
    """Return the end of an error about an unknown name: the name that was probably intended, or those that exist."""
    close = difflib.get_close_matches(name[:MAX_ECHO_CHARS], known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; the fields are {', '.join(known)}"


def known_fields(schema: type[BaseModel], parents: list[str]) -> list[str]:
    """Return the fields of the object at a place in a schema."""
    for name in parents:
        field = schema.model_fields.get(name)
        nested = next(iter(_schemas_in(field.annotation)), None) if field else None
        schema = nested or schema
    return [_wire_name(name, field) for name, field in schema.model_fields.items()]


def _schemas_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _schemas_in(argument)


def _wire_name(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    return str(alias.choices[0]) if isinstance(alias, AliasChoices) else name
