"""A worker that learns a tower with its learner.

learner --kind, options--> create the tower --ready--> learner
        --state, rank----> join the group
        --examples-------> learn them, of each step the parts of this rank
        --gather---------> send what this rank holds of a tower that is split
"""

import json
import logging
from collections.abc import Mapping
from multiprocessing.connection import Connection

import torch
from torch._C._distributed_c10d import FileStore, Store, TCPStore

from online.errors import LearningLost
from online.learning.shares import unpack_state
from online.models import State, create
from online.plugins.towers.parallel.engine import DDP
from online.plugins.towers.parallel.peers import Peers, form_group
from online.plugins.towers.parallel.split_group import SplitGroup
from online.plugins.towers.shared import as_tower
from online.plugins.workers.board import OVER, READY
from online.plugins.workers.equipment import describe_device
from online.plugins.workers.team import find_own_host, split_ranks, unpack_example
from online.schemas.json_values import JSON
from online.telemetry import log_event

log = logging.getLogger("online.worker")


class TowerFollower:
    """One tower. leader_host: the address at which this process reached the learner."""

    def __init__(self, connection: Connection, header: Mapping[str, JSON], leader_host: str, device: str) -> None:
        self.connection, self.leader_host, self.device = connection, leader_host, torch.device(device)
        self.name = header["mirror"]
        self.model = create(header["kind"], header["options"], device)
        self.trainer = as_tower(self.model).trainer
        self.is_member = False
        self._state = b""  # of the tower, packed

    def follow(self) -> None:
        """Do what the learner does, until it ends that. Raises EOFError or OSError if the learner is gone."""
        self.connection.send_bytes(READY + describe_device(self.device).pack())
        try:
            while "end" not in (message := json.loads(self.connection.recv_bytes())):
                self._do(message)
                if not self.is_member:
                    self.trainer.learn_alone()
        finally:
            self.trainer.learn_alone()
        self.connection.send_bytes(OVER)

    def _do(self, message: Mapping[str, object]) -> None:
        if "state" in message:
            self._state = self.connection.recv_bytes()
        elif "rank" in message:
            self._join(message)
        elif self.is_member:
            self._repeat(message)

    def _join(self, message: Mapping[str, object]) -> None:
        """Enter a group with the state that the learner has now."""
        self.trainer.learn_alone()
        self.trainer.forget()
        self.is_member = False
        state, self._state = unpack_state(self._state), b""
        try:
            self._meet(message, state)
        except Exception as error:  # another process is gone, or the network cannot be split
            self._note_lost(error)
            return
        self.is_member = True
        rank, size, engine = (message[name] for name in ("rank", "size", "engine"))
        log_event(log, "learning with others", model=self.name, rank=rank, processes=size, engine=engine)

    def _meet(self, message: Mapping[str, JSON], state: State) -> None:
        store, host = open_store(message, self.leader_host), find_own_host(self.connection)
        place = store, message["rank"], message["size"], host
        if message["engine"] == DDP:
            self.model.restore(state)
            self.trainer.learn_with(Peers(form_group(*place, str(self.device))))
            return
        group = SplitGroup(*place, self.device)
        parts = int(self.trainer.options["accumulate"])
        self.trainer.split_over(split_ranks(group, message["engine"], parts, message["offload"]))
        self.model.restore(state)

    def _repeat(self, message: Mapping[str, JSON]) -> None:
        """Do what the learner does. Once another process is lost, wait for the next group."""
        try:
            if "gather" in message:
                self.trainer.help_gather(message["gather"])
            elif "learn" in message:
                self.model.learn([unpack_example(fields) for fields in message["learn"]])
            else:
                self.model.drifted(message["drifted"], message["since"])
        except LearningLost as error:
            self._note_lost(error)
        self.is_member = not self.trainer.is_alone

    def _note_lost(self, error: Exception) -> None:
        self.is_member = False
        log_event(log, "others lost", logging.WARNING, model=self.name, reason=f"{type(error).__name__}: {error}")


def open_store(message: Mapping[str, JSON], leader_host: str) -> Store:
    """Return where the ranks find each other."""
    if "file" in message:
        return FileStore(message["file"], message["size"])
    return TCPStore(leader_host, message["port"], is_master=False, wait_for_workers=False)
