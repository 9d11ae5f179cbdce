"""Request bodies in a content coding, gzip or deflate: handlers read them decoded, within the limits of any other body.

    Content-Encoding: deflate, gzip     body --gzip--> --deflate--> pieces of at most 64 kB --> the handler, up to its limit
    Content-Encoding: br                415, with the codings that are accepted

A body of a few kB may stand for gigabytes, so nothing is decoded before the handler reads it. Nor may a coding add more than a
little to what it holds: a body of nothing but empty blocks would keep the service busy and reach no limit.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from online.errors import BadInput, UnsupportedCoding

if TYPE_CHECKING:
    from zlib import _Decompress

DECODED = "online.decoded"  # key of an ASGI scope: the codings from which its body is decoded
HEADER = b"content-encoding"
ACCEPTED = "gzip, deflate"
KNOWN = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}
MAX_CODINGS = 3
PIECE_BYTES = 65_536
MAX_ADDED_BYTES, MAX_ADDED_RATIO = 65_536, 1 / 64  # by a coding to what it holds; gzip adds at most a thousandth
GZIP, ZLIB, RAW = 31, 15, -15  # window bits, by which zlib distinguishes its three formats


class ContentDecoding:
    """Middleware: lets handlers read the body of a request decoded, and hides its coding. Raises UnsupportedCoding."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_coded(scope["headers"]):
            await self.app(scope, receive, send)
            return
        hidden = {HEADER}
        if codings := read_codings(Headers(scope=scope).getlist("content-encoding")):
            receive, scope[DECODED] = DecodedBody(receive, codings), ", ".join(codings)
            hidden.add(b"content-length")
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name not in hidden]
        await self.app(scope, receive, send)


def is_coded(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the headers name a content coding."""
    return any(name == HEADER for name, _ in headers)


def read_codings(headers: Iterable[str]) -> list[str]:
    """Return the codings of a body, in the order in which they were applied, without `identity`.

    Raises UnsupportedCoding and BadInput.
    """
    names = [name for header in headers for each in header.split(",") if (name := each.strip().lower())]
    codings = [name for name in names if name != "identity"]
    for name in codings:
        if name not in KNOWN:
            raise UnsupportedCoding(
                f"the content coding {name[:40]!r} is not supported; send the body as {ACCEPTED} or without a coding"
            )
    if len(codings) > MAX_CODINGS:
        raise BadInput(f"the body has {len(codings)} content codings; at most {MAX_CODINGS} are decoded")
    return [KNOWN[name] for name in codings]


class DecodedBody:
    """The `receive` of a request whose body is decoded while it is read. Raises BadInput."""

    def __init__(self, receive: Receive, codings: Iterable[str]) -> None:
        """codings: in the order in which they were applied."""
        self._receive = receive
        self._decoders = [Decoder(coding) for coding in codings][::-1]
        self._pieces: Iterator[bytes] = iter(())
        self._has_all = self._is_complete = False

    async def __call__(self) -> Message:
        while not self._is_complete:
            if piece := next(self._pieces, b""):
                return {"type": "http.request", "body": piece, "more_body": True}
            if self._has_all:
                self._is_complete = True
                return {"type": "http.request", "body": b"", "more_body": False}
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            self._has_all = not message.get("more_body", False)
            self._pieces = self._decode(message.get("body", b""))
        return await self._receive()  # that the client has disconnected

    def _decode(self, data: bytes) -> Iterator[bytes]:
        pieces: Iterator[bytes] = iter((data,))
        for decoder in self._decoders:
            pieces = decoder.decode(pieces, self._has_all)
        return pieces


class Decoder:
    """Decodes one coding of one body.

    Under the name `deflate` some clients send zlib's format, as the standard says, and some the bare data; the first two bytes tell
    which. A body in gzip may have several members, one after the other.
    """

    def __init__(self, coding: str) -> None:
        self.coding = coding
        self._inflater: _Decompress | None = None  # None before the data, between members and behind the data
        self._start = b""  # too few bytes to recognise the format
        self._has_ended = False  # at least one member
        self._taken = self._given = 0  # bytes

    def decode(self, pieces: Iterable[bytes], are_last: bool) -> Iterator[bytes]:
        """Yield what follows from further pieces of the body. are_last: whether they are its last. Raises BadInput."""
        for piece in pieces:
            if self._taken > self._given * (1 + MAX_ADDED_RATIO) + MAX_ADDED_BYTES:
                raise BadInput(f"the body has {self._taken} bytes in {self.coding} for {self._given} bytes of content")
            self._taken += len(piece)
            yield from self._inflate(piece)
        if are_last and (self._inflater is not None or self._start):
            raise BadInput(f"the body ends in the middle of its {self.coding} data; send all of it")

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        rest, is_full, self._start = self._start + data, False, b""
        while rest or is_full:  # zlib may have taken all bytes and still hold content
            inflater = self._inflater or self._begin(rest)
            if inflater is None:
                return
            try:
                piece = inflater.decompress(rest, PIECE_BYTES)
            except zlib.error as error:
                raise BadInput(f"the body is not valid {self.coding}: {error}") from None
            self._inflater, self._has_ended = (None, True) if inflater.eof else (inflater, self._has_ended)
            rest = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            is_full = len(piece) == PIECE_BYTES and not inflater.eof
            self._given += len(piece)
            if piece:
                yield piece

    def _begin(self, data: bytes) -> "_Decompress | None":
        """Return the inflater of a format; None where more bytes are needed to recognise it. Raises BadInput behind the data."""
        if self.coding == "gzip":
            return zlib.decompressobj(GZIP)
        if self._has_ended:
            raise BadInput(f"{len(data)} bytes follow the {self.coding} data of the body; leave them out")
        if len(data) < 2:
            self._start = data
            return None
        return zlib.decompressobj(ZLIB if has_zlib_header(data) else RAW)


def has_zlib_header(data: bytes) -> bool:
    """Return whether data begin with the two bytes of zlib's header: the method 8, and a sum that 31 divides. Bare data never do."""
    return data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0
