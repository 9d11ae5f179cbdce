"""Lets workers differentiate parts of a tower's steps, for a learner.

    learner --examples of the next step--> each worker     (over the worker's connection to the board)
       '---- gradients of parts ----- torch.distributed ----'
    both hold the same tower, learn the same examples, and end each step with the same bits

A worker is called, prepares itself, and says that it is ready; then it gets the tower's state, and a group is formed that
includes it. When a worker is lost, the learner continues at once alone, and calls workers again. So workers join and
leave at any time, and what is learned stays the same.

A tower that is split (option `parallel`) has a part of itself on each. When one is lost, the learner resumes from its last
durable version; what it needs whole, to publish or to check it, it gathers from all.
"""

import json
import logging
import math
import socket
import time
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import torch
from msgspec import structs
from torch._C._distributed_c10d import FileStore, Store, TCPStore

from online.io.backoff import Backoff
from online.learning.shares import pack_state
from online.models import Answer, Example, Model, Options, State
from online.models.contract import choose
from online.models.devices.placement import first_device
from online.plugins.towers.parallel.blocks import block_sizes
from online.plugins.towers.parallel.engine import (
    DDP,
    PIPELINE,
    choose_engine,
    describe_needless_split,
    free_bytes,
    measure_demand,
)
from online.plugins.towers.parallel.pair_sums import most_ranks
from online.plugins.towers.parallel.peers import PeerLost, Peers, form_group
from online.plugins.towers.parallel.split_group import SplitGroup, is_group_free
from online.plugins.towers.shared import as_tower, learns_in_parts
from online.plugins.towers.tower import Tower
from online.plugins.towers.trainer import Trainer
from online.plugins.workers.board import ShareBoard, TeamCall
from online.plugins.workers.equipment import can_join, describe_device, share_memory
from online.telemetry import log_event

if TYPE_CHECKING:
    from online.plugins.towers.parallel.split_ranks import SplitRanks

log = logging.getLogger("online.learner")

LOCAL_HOST = "127.0.0.1"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0  # before workers are called again, after a group was lost or not formed
LASTING_S = 60.0  # a group that lasts as long is followed by the shortest pause


class Team:
    """The workers that learn one model's tower with its learner; none as long as no worker of the board is idle."""

    def __init__(
        self,
        board: ShareBoard,
        name: str,
        kind: str,
        options: Options,
        device: str = "cpu",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.board, self.name, self.kind, self.options, self.clock = board, name, kind, options, clock
        self.device = torch.device(first_device(device))
        self.calls: list[TeamCall] = []  # members of the group, then workers that prepare themselves
        self.unfit: list[
            TeamCall
        ] = []  # workers whose device cannot learn with the learner's, held until the team stops
        self.member_count = 0
        self.engine = DDP  # how the members hold the tower
        self._model: weakref.ref[Model] | None = None  # what the members hold too; None: there is no group
        self._split: SplitRanks | None = None  # of that model, if each member holds a part of it
        self._calls_again_at = -math.inf
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, LASTING_S)
        self._has_warned = False

    @property
    def may_call(self) -> bool:
        """Whether idle workers are called now: not for a while after a group was lost."""
        return self.clock() >= self._calls_again_at

    def wrap(self, model: Model) -> Model:
        """Return the model, learned with the team if its kind can be learned in parts."""
        if not learns_in_parts(self.kind, self.options):
            return model
        self._warn_of_needless_split(as_tower(model))
        return TeamModel(model, self)

    def _warn_of_needless_split(self, tower: Tower) -> None:
        """Log once if the tower is to be split, although the learner's device holds it easily."""
        demand, engine = measure_demand(tower.layout, len(tower.trainer.learning.rates)), str(tower.options["parallel"])
        reason = describe_needless_split(demand, engine, free_bytes(self.device))
        if reason is not None and not self._has_warned:
            self._has_warned = True
            log_event(
                log, "a tower need not be split", logging.WARNING, model=self.name, parallel=engine, reason=reason
            )

    def send(self, model: Model, message: Mapping[str, object]) -> None:
        """Have the members do what the model does next, after letting in those that are ready."""
        if not self._is_for(model):
            return
        self._drop_dead()
        self._call_idle(as_tower(model))
        if len(self.calls) > self.member_count and all(call.is_ready for call in self.calls):
            self._form_group(model)
        self._tell_members(message)

    def _tell_members(self, message: Mapping[str, object]) -> None:
        data = json.dumps(message).encode()
        for call in self.calls[: self.member_count]:
            with suppress(OSError):  # it is lost: the next step notices
                call.send(data)

    def _is_for(self, model: Model) -> bool:
        """Return whether the team learns this model, or none. A group that has lost a member is dissolved."""
        if self._model is None:
            return True
        own = self._model()
        if own is None or as_tower(own).trainer.is_alone:
            self.stop()
            return True
        return own is model

    def _drop_dead(self) -> None:
        """Forget workers that died before a group was formed with them."""
        waiting = [call for call in self.calls[self.member_count :] if not call.is_over]
        self.calls = [*self.calls[: self.member_count], *waiting]
        self.unfit = [call for call in self.unfit if not call.is_over]

    def _call_idle(self, tower: Tower) -> None:
        """Call as many idle workers as the parts of a step leave room for."""
        free = self.board.idle_count
        if not free or not self.may_call:
            return
        room = self._find_most(tower, 1 + len(self.calls) + free) - 1 - len(self.calls)
        for call in self.board.call(room):
            place = len(self.calls) + len(self.unfit) + 1
            header = {"mirror": self.name, "kind": self.kind, "options": dict(self.options), "place": place}
            with suppress(OSError):
                call.send(json.dumps(header).encode())
            self.calls.append(call)

    def _find_most(self, tower: Tower, available: int) -> int:
        """Return how many of the processes that there are can learn the tower."""
        if tower.options["parallel"] == PIPELINE:
            available = min(available, len(block_sizes(tower.layout)))
        return most_ranks(tower.trainer.parts, available)

    def _form_group(self, model: Model) -> None:
        """Meet all workers that were called and can learn with the learner, as far as the parts allow."""
        tower, state = as_tower(model), model.state()  # before members leave that may hold some of it
        tower.trainer.learn_alone()
        self.member_count, self._model = 0, None
        self._choose_members(tower)
        failure = ""
        try:
            if self.calls:
                self._meet(model, tower.trainer, state)
        except Exception as error:  # of the network, of torch or of the tower: the learner goes on alone
            failure = f"{type(error).__name__}: {error}"
        if failure:  # not above: the error keeps the connections of the group open
            log_event(log, "workers lost", logging.WARNING, model=self.name, reason=failure)
            tower.trainer.learn_alone()
            self.dissolve()
        if tower.trainer.is_alone and not tower.trainer.ranks.holds_all:
            model.restore(state)

    def _choose_members(self, tower: Tower) -> None:
        """Keep the workers that can learn with the learner; hold those that cannot, which would be called again."""
        own, fitting = describe_device(self.device), list[TeamCall]()
        for call in self.calls:
            others = [each.equipment for each in fitting if each.equipment is not None]
            fits = call.equipment is not None and can_join(own, others, call.equipment)
            (fitting if fits else self.unfit).append(call)
        count = self._find_most(tower, len(fitting) + 1) - 1
        for call in fitting[count:]:
            call.end()
        self.calls = fitting[:count]

    def _meet(self, model: Model, trainer: Trainer, state: State) -> None:
        size, host = len(self.calls) + 1, find_own_host(self.calls[0].connection)
        self.engine, offload = self._choose_engine(as_tower(model))
        if self.engine != DDP and not is_group_free():
            raise PeerLost("this process holds a part of another tower")
        store, place = self._open_store(host, size)
        packed = pack_state(state)
        for call in self.calls:
            call.send(json.dumps({"state": len(packed)}).encode())
            call.send(packed)
        for rank, call in enumerate(self.calls, 1):  # when all have the state: they wait for each other
            header = {"rank": rank, "size": size, "engine": self.engine, "offload": offload, **place}
            call.send(json.dumps(header).encode())
        if self.engine == DDP:
            if not trainer.ranks.holds_all:
                model.restore(state)
            trainer.learn_with(Peers(form_group(store, 0, size, host, str(self.device))))
        else:
            group = SplitGroup(store, 0, size, host, self.device)
            parts = int(trainer.options["accumulate"])
            self._split = split_ranks(group, self.engine, parts, offload, self._ask_members)
            trainer.split_over(self._split)
            model.restore(state)
        self._model, self.member_count = weakref.ref(model), size - 1
        log_event(log, "learning with workers", model=self.name, processes=size, engine=self.engine)

    def _choose_engine(self, tower: Tower) -> tuple[str, bool]:
        """Return how the members hold the tower, and whether in the hosts' memory. A stack that was split is gone by now."""
        wanted = str(tower.options["parallel"])
        if wanted != "auto":
            return wanted, False
        stack = tower.trainer.stack
        demand = measure_demand(tower.layout, len(tower.trainer.learning.rates))
        own = describe_device(self.device)
        held = demand.whole_bytes if stack is not None and stack.device == self.device else 0
        own = replace(own, free_bytes=own.free_bytes + held)  # it is free where the tower is split
        members = [own, *(call.equipment for call in self.calls if call.equipment is not None)]
        try:
            return choose_engine(demand, share_memory(members)), False
        except ValueError as error:
            log_event(log, "a tower fits no device", logging.WARNING, model=self.name, reason=str(error))
            return "fsdp", self.device.type != "cpu"

    def _ask_members(self, choice: int | None) -> None:
        self._tell_members({"gather": choice})

    def _open_store(self, host: str, size: int) -> tuple[Store, dict[str, object]]:
        """Return where the ranks find each other: a file beside the board's socket, or a port of this machine."""
        if isinstance(self.board.address, str):
            path = f"{self.board.address}-{uuid.uuid4().hex}"
            return FileStore(path, size), {"file": path}
        store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
        return store, {"port": store.port}

    def dissolve(self) -> None:
        """Let the workers go after a loss, and pause: longer each time, if groups do not last."""
        pause_s = self._backoff.fail(self.clock() - self._calls_again_at)
        self.stop()
        self._calls_again_at = self.clock() + pause_s

    def stop(self) -> None:
        """Let the workers go."""
        model = self._model() if self._model is not None else None
        if model is not None:
            as_tower(model).trainer.learn_alone()
        if self._split is not None:
            self._split.leave()  # the model may be gone
        for call in (*self.calls, *self.unfit):
            call.end()
        self.calls, self.unfit, self.member_count, self._model, self._split = [], [], 0, None, None


class TeamModel:
    """A model that its team learns too. Implements `contract.Model`."""

    def __init__(self, model: Model, team: Team) -> None:
        self.model, self.team = model, team

    # what changes the model

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn the examples on all ranks of the team."""
        self.model.check(examples)  # what it refuses is sent to nobody
        self.team.send(self.model, {"learn": [pack_example(example) for example in examples]})
        self.model.learn(examples)

    def drifted(self, label: str | None, since: int) -> None:
        """React to drift on all ranks of the team."""
        self.team.send(self.model, {"drifted": label, "since": since})
        self.model.drifted(label, since)

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Un-learn alone; the team is formed again for the next examples."""
        self.team.stop()
        self.model.unlearn(examples)

    def restore(self, state: State) -> None:
        """Restore alone; the team is formed again for the next examples."""
        self.team.stop()
        self.model.restore(state)

    # what does not

    @property
    def subtracts(self) -> bool:
        """Whether the model un-learns by subtraction."""
        return self.model.subtracts

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Predict, alone."""
        return self.model.predict(inputs, keys)

    def choose(self, inputs: Sequence[bytes]) -> list[str | None]:
        """Choose answers, alone."""
        return choose(self.model, inputs)

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for examples that cannot be learned."""
        self.model.check(examples)

    def facts(self) -> Mapping[str, float]:
        """Return the model's figures."""
        return self.model.facts()

    def state(self, serving_only: bool = False) -> State:
        """Return the model's state."""
        return self.model.state(serving_only)

    def fingerprint(self) -> str:
        """Return the hash of the model's state."""
        return self.model.fingerprint()

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return the model's probes."""
        return self.model.probes()

    def feature_epoch(self) -> str:
        """Return the name of the features that the model reads."""
        return self.model.feature_epoch()


def split_ranks(
    group: SplitGroup,
    engine: str,
    parts: int,
    offload: bool,
    ask_others: Callable[[int | None], None] = lambda choice: None,
) -> "SplitRanks":
    """Return the ranks that hold a tower. See `SplitRanks`, whose engines of torch are slow to import."""
    from online.plugins.towers.parallel.split_ranks import SplitRanks

    return SplitRanks(group, engine == PIPELINE, parts, offload, ask_others)


def pack_example(example: Example) -> dict[str, object]:
    """Return an example as JSON values."""
    return {**structs.asdict(example), "features": example.features.hex()}


def unpack_example(fields: dict[str, object]) -> Example:
    """Return the example that `pack_example` packed."""
    return Example(**{**fields, "features": bytes.fromhex(str(fields["features"]))})  # type: ignore[arg-type]


def find_own_host(connection: Connection) -> str:
    """Return the address of this machine that the other side of a connection reaches."""
    with socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as same:
        name = same.getsockname()
        return str(name[0]) if isinstance(name, tuple) else LOCAL_HOST
