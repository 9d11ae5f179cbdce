"""What the replicas of a cluster have agreed on, read from the outside, and what one uninterrupted process would have learned."""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache

import httpx
from sqlalchemy import create_engine

from online.models import Example, Options, create
from online.schemas.events import Event
from online.store.events import load_end, read_events
from tests.cluster.history import LearnedState, LogEntry
from tests.cluster.local_cluster import Replica, wait_for

OPTIONS: Options = {"input": "vector", "size": 4, "scale": 4.0}  # those of DEFAULT_CONFIG
PAGE = 10_000


def read_log(store: str, model: str = "vec") -> list[Event]:
    """Return every event of a model, read from the store."""
    engine, events = create_engine(store), list[Event]()
    with engine.connect() as connection:
        while page := read_events(connection, model, len(events), PAGE):
            events += page
    engine.dispose()
    return events


def read_head(store: str, model: str = "vec") -> int:
    """Return the last offset of a model's log."""
    engine = create_engine(store)
    with engine.connect() as connection:
        head, _ = load_end(connection, model)
    engine.dispose()
    return head


def list_entries(events: Sequence[Event]) -> list[LogEntry]:
    """Return the offset and the id of each event."""
    return [(event.offset, event.id) for event in events]


def hash_at(events: Sequence[Event]) -> Callable[[int], str]:
    """Return a function that learns the log up to an offset in one process, uninterrupted, and returns the hash of the state."""

    @lru_cache
    def learn(until: int) -> str:
        known = [event for event in events if event.offset <= until]
        retracted = {event.target.offset for event in known if event.kind == "retraction" and event.target is not None}
        model = create("classifier", OPTIONS)
        taught = [event for event in known if event.kind == "label" and event.offset not in retracted]
        model.learn([Example(event.offset, "label", event.features, event.label) for event in taught])
        return model.fingerprint()

    return learn


def read_state(replica: Replica, http: httpx.Client) -> LearnedState:
    """Return what a replica answers with. Raises httpx.HTTPError."""
    answer = http.get(f"{replica.url}/v1/models/vec/versions")
    answer.raise_for_status()
    live = next(each for each in answer.json()["versions"] if each["live"])
    return LearnedState(replica.number, int(live["version"]), int(live["learned_until"]), str(live["state_sha256"]))


def find_state(replica: Replica, http: httpx.Client) -> LearnedState | None:
    """Return what a replica answers with; None while it has no version, or does not answer."""
    try:
        return read_state(replica, http)
    except (httpx.HTTPError, StopIteration):
        return None


def wait_reached(replica: Replica, until: int, timeout_s: float = 60.0, request_s: float = 10.0) -> LearnedState:
    """Return what a replica answers with once that has learned an offset. request_s: for one answer. Raises TimeoutError."""
    with httpx.Client(trust_env=False, timeout=request_s) as http:

        def look() -> LearnedState | None:
            state = find_state(replica, http)
            return state if state is not None and state.learned_until >= until else None

        return wait_for(look, timeout_s, f"offset {until} at replica {replica.number}")


def wait_equal(replicas: Sequence[Replica], until: int, timeout_s: float = 60.0) -> tuple[list[LearnedState], float]:
    """Wait until all replicas answer with one state, that of an offset; return the states, and after how many seconds."""
    began = time.monotonic()
    with httpx.Client(trust_env=False, timeout=5) as http:

        def agreed() -> list[LearnedState] | None:
            states = [state for replica in replicas if (state := find_state(replica, http)) is not None]
            same = {(each.learned_until, each.state_sha256) for each in states}
            is_whole = len(states) == len(replicas) and len(same) == 1
            return states if is_whole and states[0].learned_until >= until else None

        try:
            found = wait_for(agreed, timeout_s, f"agreement of {len(replicas)} replicas on offset {until}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {[describe_replica(each, http) for each in replicas]}") from None
    return found, time.monotonic() - began


def describe_replica(replica: Replica, http: httpx.Client) -> str:
    """Return what a replica says of its model, for the message of an error."""
    try:
        answer = http.get(f"{replica.url}/v1/models/vec")
    except httpx.HTTPError as error:
        return f"replica {replica.number}: {error!r}"
    return f"replica {replica.number}: {answer.text[:600]}; {replica.output[-1500:]}"
