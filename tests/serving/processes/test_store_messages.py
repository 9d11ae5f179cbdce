"""Messages between the first worker and the store process: what arrives is what was sent, and nothing else is believed."""

import inspect

import msgspec
import pytest

import online.errors
from online.errors import (
    AlreadyDecided,
    NewerRelease,
    OnlineError,
    QuotaExceeded,
    TextTooLong,
    UnknownModel,
    UnknownVersion,
    UnknownVersionLabel,
)
from online.schemas.access.callers import Caller
from online.schemas.feedback import Receipt
from online.serving.processes import store_messages
from online.serving.processes.store_messages import (
    LENGTH,
    BrokenChannel,
    Frames,
    MarkLearned,
    NewFeedback,
    RetractFeedback,
    SubmitFeedback,
    Work,
    describe_failure,
    describe_receipts,
    frame,
    read_outcome,
    read_work,
    receipts_of,
)

CALLER = Caller("key:ann", frozenset({"predict", "feedback"}), user="ann", models=frozenset({"m"}), address="1.2.3.4")
ITEM = NewFeedback("a", '{"id":"a"}', True, None, "[1.5]", None, "yes", None, "ann", b"\x00\xff", b"")
WORKS: list[Work] = [
    SubmitFeedback("m", [ITEM, ITEM], CALLER, ["abc"], ("slot", 2)),
    SubmitFeedback("m", [], CALLER, []),
    RetractFeedback("m", "a", CALLER),
    MarkLearned("m", [(0, 5, 2, "2026-01-01T00:00:00+00:00")]),
]
SPECIAL: dict[type[OnlineError], OnlineError] = {
    AlreadyDecided: AlreadyDecided("a", "key:ann", "approve"),
    TextTooLong: TextTooLong("the reply", 9, 8),
    UnknownModel: UnknownModel("there is no model 'm'", "m"),
    UnknownVersion: UnknownVersion("m", 3),
    UnknownVersionLabel: UnknownVersionLabel("m", "x", ["stable"]),
    NewerRelease: NewerRelease("the event", "merge"),
    QuotaExceeded: QuotaExceeded("too much", 17),
}
ERRORS = [
    SPECIAL.get(kind) or kind(f"{kind.__name__} é")
    for _, kind in inspect.getmembers(online.errors, inspect.isclass)
    if issubclass(kind, OnlineError)
]


@pytest.mark.parametrize("work", WORKS, ids=lambda work: type(work).__name__)
def test_work_arrives_as_it_was_sent(work: Work) -> None:
    (payload,) = Frames().feed(frame((7, work)))
    assert read_work(payload) == (7, work)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_raised_as_the_store_process_has_raised_it(error: OnlineError) -> None:
    (payload,) = Frames().feed(frame(describe_failure(1, error)))
    with pytest.raises(type(error)) as raised:
        receipts_of(read_outcome(payload))
    assert type(raised.value) is type(error)
    assert (str(raised.value), raised.value.status, vars(raised.value)) == (str(error), error.status, vars(error))


def test_a_defect_of_the_store_process_is_no_error_of_the_caller() -> None:
    with pytest.raises(RuntimeError, match="KeyError: 'm'"):
        receipts_of(describe_failure(1, KeyError("m")))


def test_receipts_arrive_as_they_were_sent() -> None:
    receipts = [Receipt(id="a", offset=3, status="accepted"), Receipt(id="b", offset=0, status="held")]
    (payload,) = Frames().feed(frame(describe_receipts(4, receipts)))
    assert receipts_of(read_outcome(payload)) == receipts


def test_messages_are_found_however_the_bytes_arrive() -> None:
    frames, data = Frames(), b"".join(frame((number, work)) for number, work in enumerate(WORKS))
    found = [payload for at in range(len(data)) for payload in frames.feed(data[at : at + 1])]
    assert [read_work(payload) for payload in found] == list(enumerate(WORKS))
    assert [read_work(payload) for payload in Frames().feed(data)] == list(enumerate(WORKS))


@pytest.mark.parametrize("payload", [b"", b"\xc1", msgspec.msgpack.encode((1, ["delete", "m"])), b"\x93" * 50])
def test_a_message_that_cannot_be_read_ends_the_connection(payload: bytes) -> None:
    with pytest.raises(BrokenChannel):
        read_work(payload)
    with pytest.raises(BrokenChannel):
        read_outcome(payload)


def test_a_huge_message_is_neither_sent_nor_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_messages, "MAX_MESSAGE_BYTES", 100)
    with pytest.raises(ValueError, match="at most 100 are sent"):
        frame((1, SubmitFeedback("m", [ITEM] * 10, CALLER, [])))
    with pytest.raises(BrokenChannel, match="a message of 101 bytes"):
        list(Frames().feed(LENGTH.pack(101)))
