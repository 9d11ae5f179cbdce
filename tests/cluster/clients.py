"""Clients of a cluster that record what they do: each talks to a random replica, and sends again what was not acknowledged.

draw an event --POST :feedback--> random replica --no acknowledgement--> another one, with the same id
    5 % again, 3 % retracted          | offset
                                      +--now and then: predict with min_offset at another replica--> freshness
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from tests.cluster.history import Operation
from tests.cluster.local_cluster import Replica

DUPLICATES, RETRACTIONS, READS = 0.05, 0.03, 0.3  # shares of events, and of requests
TIMEOUT_S = 10.0  # of a request; then the client asks another replica
PAUSE_S = 0.05  # before the same is sent again
GIVE_UP_S = 180.0  # without any acknowledgement
CLASSES = 3


class RecordingClient:
    """One client. Its `history` has every request that it has sent. Only its own thread calls it."""

    def __init__(
        self,
        number: int,
        replicas: Sequence[Replica],
        seed: int,
        batch: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """replicas: those that it asks, which others may change. batch: events of one request. clock: that of the outages."""
        self.number, self.replicas, self.batch, self.clock = number, replicas, batch, clock
        self.draw = random.Random(f"{seed} {number}")
        self.history, self.freshness_s = list[Operation](), list[tuple[float, float]]()
        self.sent, self.retracted = list[str](), set[str]()
        self._http = dict[int, httpx.Client]()
        self._pause = threading.Event()

    def close(self) -> None:
        """Close its connections."""
        for http in self._http.values():
            http.close()

    def act(self) -> int:
        """Give some feedback, perhaps with duplicates, perhaps retract some; return how many new events were acknowledged."""
        items = [self.draw_item() for _ in range(self.batch)]
        new = len(items)
        if self.sent and self.draw.random() < DUPLICATES * self.batch:
            items.append(self._repeat(self.draw.choice(self.sent)))
        offset = self.give(items)
        self.sent += [str(each["id"]) for each in items[:new]]
        if self.draw.random() < RETRACTIONS * self.batch:
            new += self.retract(self.draw.choice(self.sent))
        if self.draw.random() < READS:
            self.read(offset)
        return new

    def draw_item(self) -> dict[str, Any]:
        """Return new feedback."""
        return self._repeat(f"c{self.number}-{len(self.sent)}-{self.draw.randrange(1 << 30)}")

    @staticmethod
    def _repeat(id: str) -> dict[str, Any]:
        """Return the item of an id: its values follow from it, so that a duplicate is the same."""
        draw = random.Random(id)
        label = draw.randrange(CLASSES)
        return {"id": id, "input": [round(draw.gauss(label, 1), 4) for _ in range(4)], "label": f"class {label}"}

    def give(self, items: Sequence[dict[str, Any]]) -> int:
        """Give feedback until it is acknowledged; return its last offset. Raises TimeoutError."""
        ids = tuple(str(each["id"]) for each in items)
        return self._insist("feedback", "POST", "/v1/models/vec:feedback", {"feedback": [*items]}, ids)

    def retract(self, id: str) -> int:
        """Take feedback back; return 1 if it was not taken back before. Raises TimeoutError."""
        self._insist("retract", "DELETE", f"/v1/models/vec/feedback/{id}", None, (f"{id}#retraction",))
        is_new = id not in self.retracted
        self.retracted.add(id)
        return int(is_new)

    def _insist(self, action: Any, method: str, path: str, body: object, ids: tuple[str, ...]) -> int:
        end = self.clock() + GIVE_UP_S
        while self.clock() < end:
            operation = self._send(action, method, path, body, ids)
            if operation.outcome == "acknowledged":
                return operation.offsets[-1]
            self._pause.wait(PAUSE_S)
        raise TimeoutError(
            f"client {self.number}: no acknowledgement of {ids} within {GIVE_UP_S:g} s: {self.history[-1]}"
        )

    def _send(self, action: Any, method: str, path: str, body: object, ids: tuple[str, ...]) -> Operation:
        replica, http, began = *self._choose(), self.clock()
        try:
            answer = http.request(method, path, json=body)
        except httpx.TransportError as error:
            operation = Operation(
                self.number, replica, action, began, self.clock(), "unknown", 0, ids, reason=repr(error)
            )
        else:
            operation = self._describe(action, replica, began, answer, ids)
        self.history.append(operation)
        return operation

    def _choose(self) -> tuple[int, httpx.Client]:
        """Return the number of a random replica, and what connects to it. The replicas may have changed."""
        replica = self.draw.choice(self.replicas)
        if replica.number not in self._http:
            self._http[replica.number] = httpx.Client(base_url=replica.url, trust_env=False, timeout=TIMEOUT_S)
        return replica.number, self._http[replica.number]

    def _describe(
        self, action: Any, replica: int, began: float, answer: httpx.Response, ids: tuple[str, ...]
    ) -> Operation:
        now, status = self.clock(), answer.status_code
        if not answer.is_success:
            return Operation(self.number, replica, action, began, now, "refused", status, ids, reason=answer.text[:300])
        content = answer.json()
        receipts = content.get("receipts", [content])
        offsets = tuple(int(each["offset"]) for each in receipts)
        return Operation(self.number, replica, action, began, now, "acknowledged", status, ids, offsets)

    def read(self, offset: int) -> None:
        """Ask a random replica for an answer that has learned an offset, and note how long that takes."""
        body = {"instances": [[0, 0, 0, 0]], "min_offset": offset, "timeout_ms": int(1000 * TIMEOUT_S) - 1_000}
        replica, http, began = *self._choose(), self.clock()
        known: dict[str, Any] = {"min_offset": offset}
        try:
            answer = http.post("/v1/models/vec:predict", json=body)
            known |= {"status": answer.status_code, "outcome": "acknowledged" if answer.is_success else "refused"}
            if answer.is_success:
                content = answer.json()
                known |= {"learned_until": content["learned_until"], "version": int(content["model_version"])}
                self.freshness_s.append((began, self.clock() - began))
            else:
                known["reason"] = answer.text[:300]
        except httpx.TransportError as error:
            known |= {"outcome": "unknown", "reason": repr(error)}
        self.history.append(Operation(self.number, replica, "predict", began, self.clock(), **known))


class ClientThreads:
    """Clients in threads, that act until they are stopped. pause_s: between two actions of each."""

    def __init__(self, clients: Sequence[RecordingClient], pause_s: float) -> None:
        self.clients, self.pause_s, self.failures = clients, pause_s, list[BaseException]()
        self._events, self._counting, self._stopping = 0, threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(each,), daemon=True) for each in clients]

    @property
    def events(self) -> int:
        """New events that were acknowledged."""
        return self._events

    def start(self) -> "ClientThreads":
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def _run(self, client: RecordingClient) -> None:
        try:
            while not self._stopping.is_set():
                acknowledged = client.act()
                with self._counting:
                    self._events += acknowledged
                self._stopping.wait(self.pause_s)
        except BaseException as error:  # raised by `stop`
            self.failures.append(error)

    def stop(self) -> list[Operation]:
        """End; return the history of all. Raises what a client raised."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        for client in self.clients:
            client.close()
        if self.failures:
            raise self.failures[0]
        return [operation for client in self.clients for operation in client.history]
