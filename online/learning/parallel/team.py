"""Lets workers differentiate parts of a tower's steps, for a learner.

    learner --examples of the next step--> each worker     (over the worker's connection to the board)
       '---- gradients of parts ----- torch.distributed ----'
    both hold the same tower, learn the same examples, and end each step with the same bits

A worker is called, prepares itself, and says that it is ready; then it gets the tower's state, and a group is formed that
includes it. When a worker is lost, the learner continues at once alone, and calls workers again. So workers join and
leave at any time, and what is learned stays the same.
"""

import json
import logging
import socket
import uuid
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection

from torch._C._distributed_c10d import FileStore, Store, TCPStore

from online.learning.parallel.board import Call, ShareBoard
from online.learning.parallel.shares import pack_state
from online.models import Answer, Example, Model, Options, State
from online.models.contract import choose
from online.models.devices.placement import first_device
from online.models.tower.parallel.pair_sums import most_ranks
from online.models.tower.parallel.peers import Peers, form_group
from online.models.tower.shared import as_shared, learns_in_parts
from online.telemetry import log_event

log = logging.getLogger("online.learner")

LOCAL_HOST = "127.0.0.1"


class Team:
    """The workers that learn one model's tower with its learner; none as long as no worker of the board is idle."""

    def __init__(self, board: ShareBoard, name: str, kind: str, options: Options, device: str = "cpu") -> None:
        self.board, self.name, self.kind, self.options = board, name, kind, options
        self.device = first_device(device)
        self.calls: list[Call] = []  # members of the group, then workers that prepare themselves
        self.member_count = 0
        self._model: weakref.ref[Model] | None = None  # what the members hold too; None: there is no group

    def wrap(self, model: Model) -> Model:
        """The model, learned with the team if its kind can be learned in parts."""
        return TeamModel(model, self) if learns_in_parts(self.kind, self.options) else model

    def send(self, model: Model, message: Mapping[str, object]) -> None:
        """Have the members do what the model does next, after letting in those that are ready."""
        if not self._is_for(model):
            return
        self._call_idle(as_shared(model).parts)
        if len(self.calls) > self.member_count and all(call.is_ready for call in self.calls):
            self._form_group(model)
        data = json.dumps(message).encode()
        for call in self.calls[: self.member_count]:
            with suppress(OSError):  # it is lost: the next step notices
                call.send(data)

    def _is_for(self, model: Model) -> bool:
        """Whether the team learns this model, or none. A group that has lost a member is dissolved."""
        if self._model is None:
            return True
        own = self._model()
        if own is not None and own is not model:
            return False
        if own is None or as_shared(own).is_alone:
            self.stop()
        return True

    def _call_idle(self, parts: int) -> None:
        """Call as many idle workers as the parts of a step leave room for."""
        free = self.board.idle_count
        if not free:
            return
        room = most_ranks(parts, 1 + len(self.calls) + free) - 1 - len(self.calls)
        for call in self.board.call(room):
            with suppress(OSError):
                call.send(json.dumps({"mirror": self.name, "kind": self.kind, "options": dict(self.options)}).encode())
            self.calls.append(call)

    def _form_group(self, model: Model) -> None:
        """Meet all workers that were called, as far as the parts allow, with the present state."""
        shared = as_shared(model)
        shared.learn_alone()
        size = most_ranks(shared.parts, len(self.calls) + 1)
        for call in self.calls[size - 1 :]:
            call.end()
        self.calls, self.member_count, self._model = self.calls[: size - 1], 0, None
        if size == 1:
            return
        try:
            host = find_own_host(self.calls[0].connection)
            store, place = self._open_store(host, size)
            state = pack_state(model.state())
            for rank, call in enumerate(self.calls, 1):
                call.send(json.dumps({"rank": rank, "size": size, **place}).encode())
                call.send(state)
            shared.learn_with(Peers(form_group(store, 0, size, host, self.device)))
        except (OSError, RuntimeError) as error:
            log_event(log, "workers lost", logging.WARNING, model=self.name, reason=str(error))
            self.stop()
            return
        self._model, self.member_count = weakref.ref(model), size - 1
        log_event(log, "learning with workers", model=self.name, processes=size)

    def _open_store(self, host: str, size: int) -> tuple[Store, dict[str, object]]:
        """Where the ranks find each other: a file beside the board's socket, or a port of this machine."""
        if isinstance(self.board.address, str):
            path = f"{self.board.address}-{uuid.uuid4().hex}"
            return FileStore(path, size), {"file": path}
        store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
        return store, {"port": store.port}

    def stop(self) -> None:
        """Let the workers go."""
        model = self._model() if self._model is not None else None
        if model is not None:
            as_shared(model).learn_alone()
        for call in self.calls:
            call.end()
        self.calls, self.member_count, self._model = [], 0, None


class TeamModel:
    """A model that its team learns too. Implements `contract.Model`."""

    def __init__(self, model: Model, team: Team) -> None:
        self.model, self.team = model, team

    # what changes the model

    def learn(self, examples: Sequence[Example]) -> None:
        self.model.check(examples)  # what it refuses is sent to nobody
        self.team.send(self.model, {"learn": [pack_example(example) for example in examples]})
        self.model.learn(examples)

    def drifted(self, label: str | None, since: int) -> None:
        self.team.send(self.model, {"drifted": label, "since": since})
        self.model.drifted(label, since)

    def unlearn(self, examples: Sequence[Example]) -> None:
        self.team.stop()
        self.model.unlearn(examples)

    def restore(self, state: State) -> None:
        self.team.stop()
        self.model.restore(state)

    # what does not

    @property
    def subtracts(self) -> bool:
        return self.model.subtracts

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        return self.model.predict(inputs, keys)

    def choose(self, inputs: Sequence[bytes]) -> list[str | None]:
        return choose(self.model, inputs)

    def check(self, examples: Sequence[Example]) -> None:
        self.model.check(examples)

    def facts(self) -> Mapping[str, float]:
        return self.model.facts()

    def state(self, serving_only: bool = False) -> State:
        return self.model.state(serving_only)

    def fingerprint(self) -> str:
        return self.model.fingerprint()

    def probes(self) -> list[tuple[bytes, str | None]]:
        return self.model.probes()

    def feature_epoch(self) -> str:
        return self.model.feature_epoch()


def pack_example(example: Example) -> dict[str, object]:
    return {**asdict(example), "features": example.features.hex()}


def unpack_example(fields: dict[str, object]) -> Example:
    return Example(**{**fields, "features": bytes.fromhex(str(fields["features"]))})  # type: ignore[arg-type]


def find_own_host(connection: Connection) -> str:
    """The address of this machine that the other side of a connection reaches."""
    with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as same:
        name = same.getsockname()
        return str(name[0]) if isinstance(name, tuple) else LOCAL_HOST
