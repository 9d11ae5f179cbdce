"""Recorded histories of clients, and what must be true of each, in the manner of Jepsen. Everything here is a pure function.

    clients --Operation: when, where, what was asked, what was answered--> history ──┐
    store   --(offset, id) of every event--> log ────────────────────────────────────┼─> list of violations
    replica --learned_until, state hash--> LearnedState ─────────────────────────────┘

An operation whose outcome is unknown may have happened or not, once: its client has sent it again until it was acknowledged.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Action = Literal["feedback", "retract", "predict"]
Outcome = Literal["acknowledged", "refused", "unknown"]  # refused: by an answer; unknown: the connection broke
LogEntry = tuple[int, str]  # offset, id of the event


@dataclass(frozen=True, slots=True)
class Operation:
    """One request of a client. started_at, ended_at: seconds of one clock. ids, offsets: of the feedback it acknowledged.

    min_offset: what a prediction was to have learned; learned_until, version: of its answer. status: of HTTP; 0 without an answer.
    """

    client: int
    replica: int
    action: Action
    started_at: float
    ended_at: float
    outcome: Outcome
    status: int = 0
    ids: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()
    min_offset: int | None = None
    learned_until: int | None = None
    version: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LearnedState:
    """What a replica answers with."""

    replica: int
    version: int
    learned_until: int
    state_sha256: str


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which requests to a replica may fail. kind: it is killed (no connection) or cut off from Postgres (503)."""

    replica: int
    kind: Literal["killed", "cut off"]
    began_at: float
    ended_at: float


def check_history(history: Sequence[Operation], log: Sequence[LogEntry], roll_backs: Collection[int] = ()) -> list[str]:
    """Return every violation that a history and the log show. roll_backs: versions to which an event of the log rolled back."""
    return [
        *check_log(log),
        *check_acknowledged(history, log),
        *check_min_offsets(history),
        *check_versions(history, roll_backs),
        *check_order_of_clients(history),
    ]


def check_log(log: Sequence[LogEntry]) -> Iterator[str]:
    """Yield where a log has a gap, or has an event twice."""
    for place, (offset, id) in enumerate(log, 1):
        if offset != place:
            yield f"the log has offset {offset} ({id}) at place {place}"
            break
    for id, count in Counter(id for _, id in log).items():
        if count > 1:
            yield f"{id} is in the log {count} times"


def check_acknowledged(history: Iterable[Operation], log: Sequence[LogEntry]) -> Iterator[str]:
    """Yield what was acknowledged and is not in the log, or not at the offset that was named.

    Feedback that is sent again after it was retracted is acknowledged with the offset of the retraction.
    """
    offset_of = {id: offset for offset, id in log}
    for each in history:
        if each.outcome != "acknowledged" or each.action == "predict":
            continue
        for id, offset in zip(each.ids, each.offsets, strict=True):
            if id not in offset_of:
                yield f"{id}, acknowledged by replica {each.replica} at offset {offset}, is lost"
            elif offset not in (offset_of[id], offset_of.get(f"{id}#retraction")):
                yield f"{id} was acknowledged at offset {offset} and is at {offset_of[id]}"


def check_learned(learned: Sequence[LogEntry], log: Sequence[LogEntry], replica: int = 0) -> Iterator[str]:
    """Yield what a replica learned twice, out of order, or passed over. learned: in the order in which it read them."""
    times = Counter(id for _, id in learned)
    for id, count in times.items():
        if count > 1:
            yield f"replica {replica} learned {id} {count} times"
    offsets = [offset for offset, _ in learned]
    for before, after in pairwise(offsets):
        if after < before:
            yield f"replica {replica} learned offset {after} after {before}"
    until = max(offsets, default=0)
    for offset, id in log:
        if offset <= until and id not in times:
            yield f"replica {replica} passed over {id} at offset {offset}"


def check_states(states: Iterable[LearnedState], expected: Callable[[int], str]) -> Iterator[str]:
    """Yield the replicas whose state is not that of an uninterrupted process. expected: its hash at an offset."""
    for each in states:
        wanted = expected(each.learned_until)
        if each.state_sha256 != wanted:
            yield (
                f"replica {each.replica} has state {each.state_sha256[:12]} at offset {each.learned_until} in version "
                f"{each.version}, and an uninterrupted process has {wanted[:12]}"
            )


def check_min_offsets(history: Iterable[Operation]) -> Iterator[str]:
    """Yield the predictions that had not learned what they were to have learned."""
    for each in history:
        if each.min_offset is not None and each.learned_until is not None and each.learned_until < each.min_offset:
            yield (
                f"replica {each.replica} answered with offset {each.learned_until} where {each.min_offset} was the minimum"
            )


def check_versions(history: Iterable[Operation], roll_backs: Collection[int] = ()) -> Iterator[str]:
    """Yield the answers of a replica that are older than one that it had given before, where nothing rolled back to them."""
    answered = [each for each in history if each.version is not None]
    for replica in sorted({each.replica for each in answered}):
        here = [each for each in answered if each.replica == replica]
        ended = sorted(here, key=lambda each: each.ended_at)
        newest, place = 0, 0
        for each in sorted(here, key=lambda each: each.started_at):
            while place < len(ended) and ended[place].ended_at < each.started_at:
                newest, place = max(newest, ended[place].version or 0), place + 1
            if each.version is not None and each.version < newest:
                if each.version in roll_backs:
                    newest = each.version
                else:
                    yield f"replica {replica} answered with version {each.version} after version {newest}"


def check_order_of_clients(history: Iterable[Operation]) -> Iterator[str]:
    """Yield where a client's later feedback has an earlier offset. What it sent a second time has the offset of the first."""
    last: dict[int, int] = {}
    sent = set[str]()
    for each in sorted(history, key=lambda each: each.ended_at):
        if each.outcome != "acknowledged" or each.action == "predict":
            continue
        new = [offset for id, offset in zip(each.ids, each.offsets, strict=True) if id not in sent]
        sent.update(each.ids)
        for offset in new:
            if offset <= last.get(each.client, 0):
                yield f"client {each.client} was given offset {offset} after {last[each.client]}"
            last[each.client] = max(offset, last.get(each.client, 0))


def find_failures(history: Iterable[Operation], outages: Sequence[Outage]) -> list[Operation]:
    """Return the requests that failed although nothing explains it.

    A connection may break only where the replica was killed or cut off. Only one that was cut off may answer 503, or 504 where
    an offset was to be learned.
    """
    return [each for each in history if each.outcome != "acknowledged" and not is_explained(each, outages)]


def is_explained(failed: Operation, outages: Sequence[Outage]) -> bool:
    """Return whether an outage explains that a request failed."""
    kinds = ("cut off",) if failed.status in (503, 504) else ("killed", "cut off") if failed.status == 0 else ()
    return any(
        each.replica == failed.replica
        and each.kind in kinds
        and each.began_at <= failed.ended_at
        and failed.started_at <= each.ended_at
        for each in outages
    )


def find_percentile(values: Collection[float], share: float) -> float:
    """Return the value below which so much of the values is; NaN without any."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
