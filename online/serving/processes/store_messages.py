"""The messages between the first worker and the store process, over a pair of connected sockets.

    first worker --(number, work)--> store process --COMMIT--> (number, receipts or error) --> first worker

    message = length (4 bytes), payload (MessagePack)

No message holds code. A message that cannot be read ends the connection: both ends are one release of one program, so it
can only be a defect, and the first worker then does the work itself.
"""

import struct
from collections.abc import Iterator

import msgspec

import online.errors
from online.errors import OnlineError
from online.schemas.access.callers import Caller
from online.schemas.events import Scope
from online.schemas.feedback import FeedbackStatus, Receipt

LENGTH = struct.Struct("<I")
MAX_MESSAGE_BYTES = 1 << 27  # several times the largest body that the settings allow by default
READY = 0  # the number of the message that says that the store process can work


class NewFeedback(msgspec.Struct, array_like=True, frozen=True):
    """One item of feedback, checked and encoded: all that its transaction needs.

    content: the item as received, as JSON. input: JSON. is_id_chosen: whether the client has chosen the id. features: of the
    input; correction_features: of the correction's text. Both are empty where the item has none. example_count: of how many
    examples the item is the sums, whose file its features are; 0: it is no sums. choice: what a device answered to the input.
    answer, answered_until: what the live version answered to the input of a label, as in `FeedbackRow`. signal: of a reward,
    as in `Event`. outcome: JSON.
    """

    id: str
    content: str
    is_id_chosen: bool = False
    prediction_id: str | None = None
    input: str | None = None
    reward: float | None = None
    label: str | None = None
    correction: str | None = None
    user: str | None = None
    features: bytes = b""
    correction_features: bytes = b""
    scope: Scope = ""
    example_count: int = 0
    choice: str | None = None
    answer: str | None = None
    answered_until: int | None = None
    signal: str = ""
    outcome: str | None = None


class SubmitFeedback(msgspec.Struct, array_like=True, frozen=True, tag="submit"):
    """Store all items or none.

    encoders: names of those that computed the features. slot: as in `Feedback.submit`. may_be_known: whether an id may be in
    the store already; False where the service has just made all of them.
    """

    model: str
    items: list[NewFeedback]
    caller: Caller
    encoders: list[str]
    slot: tuple[str, int] | None = None
    may_be_known: bool = True


class RetractFeedback(msgspec.Struct, array_like=True, frozen=True, tag="retract"):
    """Retract feedback on behalf of a caller."""

    model: str
    id: str
    caller: Caller


class MarkLearned(msgspec.Struct, array_like=True, frozen=True, tag="learned"):
    """spans: (after, until, version, at) of several publications."""

    model: str
    spans: list[tuple[int, int, int, str]]


Work = SubmitFeedback | RetractFeedback | MarkLearned


class Failure(msgspec.Struct, array_like=True, frozen=True):
    """An error as it is raised again. name: of its class in `online.errors`; "" for a defect. values: its attributes."""

    name: str
    text: str
    values: dict[str, str | int | float | None] = {}


class WriteOutcome(msgspec.Struct, array_like=True, frozen=True):
    """receipts: (id, offset, status)."""

    number: int
    receipts: list[tuple[str, int, FeedbackStatus]] = []
    failure: Failure | None = None


class BrokenChannel(Exception):
    """The connection has ended, or carries what neither end has written."""


ENCODER = msgspec.msgpack.Encoder()
WORK = msgspec.msgpack.Decoder(tuple[int, Work])
OUTCOME = msgspec.msgpack.Decoder(WriteOutcome)


def frame(message: object) -> bytes:
    """Return a message with its length before it. Raises ValueError for a message that is too long, or holds what MessagePack cannot."""
    payload = ENCODER.encode(message)
    if len(payload) > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {len(payload):,} bytes; at most {MAX_MESSAGE_BYTES:,} are sent")
    return LENGTH.pack(len(payload)) + payload


class Frames:
    """Splits what arrives into payloads."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield each complete payload. Raises BrokenChannel."""
        buffer = self._buffer
        buffer += data
        begin = 0
        while len(buffer) >= begin + LENGTH.size:
            length = LENGTH.unpack_from(buffer, begin)[0]
            if length > MAX_MESSAGE_BYTES:
                raise BrokenChannel(f"a message of {length:,} bytes")
            end = begin + LENGTH.size + length
            if len(buffer) < end:
                break
            yield bytes(buffer[begin + LENGTH.size : end])
            begin = end
        del buffer[:begin]


def read_work(payload: bytes) -> tuple[int, Work]:
    """Read the number and the work of a message. Raises BrokenChannel."""
    try:
        return WORK.decode(payload)
    except msgspec.MsgspecError as error:
        raise BrokenChannel(f"a message that cannot be read: {error}") from error


def read_outcome(payload: bytes) -> WriteOutcome:
    """Read an outcome. Raises BrokenChannel."""
    try:
        return OUTCOME.decode(payload)
    except msgspec.MsgspecError as error:
        raise BrokenChannel(f"a message that cannot be read: {error}") from error


def describe_receipts(number: int, receipts: list[Receipt]) -> WriteOutcome:
    """Return the answer that reports receipts."""
    return WriteOutcome(number, [(receipt.id, receipt.offset, receipt.status) for receipt in receipts])


def describe_failure(number: int, error: BaseException) -> WriteOutcome:
    """Return the answer that reports an error."""
    name = type(error).__name__ if isinstance(error, OnlineError) else ""
    text = str(error) if name else f"{type(error).__name__}: {error}"
    return WriteOutcome(number, failure=Failure(name, text, dict(vars(error)) if name else {}))


def receipts_of(outcome: WriteOutcome) -> list[Receipt]:
    """Return the receipts of an outcome. Raises the error that the work has raised."""
    if outcome.failure is not None:
        raise restore_error(outcome.failure)
    return [Receipt(id=id, offset=offset, status=status) for id, offset, status in outcome.receipts]


def restore_error(failure: Failure) -> Exception:
    """Return the error that an answer reports, of its own class where it is one of ours."""
    kind = getattr(online.errors, failure.name, None) if failure.name else None
    if kind is None:
        return RuntimeError(f"the store process failed: {failure.text}")
    error: Exception = kind.__new__(kind)
    error.args = (failure.text,)
    vars(error).update(failure.values)
    return error
