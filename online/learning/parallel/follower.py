"""A worker that learns a tower with its learner.

learner --kind, options--> create the tower --ready--> learner
        --rank, state----> join the group
        --examples-------> learn them, of each step the parts of this rank
"""

import json
import logging
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from torch._C._distributed_c10d import FileStore, Store, TCPStore

from online.learning.parallel.board import OVER, READY
from online.learning.parallel.shares import unpack_state
from online.learning.parallel.team import find_own_host, unpack_example
from online.models import create
from online.models.tower.parallel.peers import Peers, form_group
from online.models.tower.shared import as_shared
from online.telemetry import log_event

log = logging.getLogger("online.worker")


class Follower:
    """One tower. leader_host: the address at which this process reached the learner."""

    def __init__(self, connection: Connection, header: Mapping[str, Any], leader_host: str, device: str) -> None:
        self.connection, self.leader_host, self.device = connection, leader_host, device
        self.name = header["mirror"]
        self.model = create(header["kind"], header["options"], device)
        self.is_member = False

    def follow(self) -> None:
        """Do what the learner does, until it ends that."""
        self.connection.send_bytes(READY)
        while "end" not in (message := json.loads(self.connection.recv_bytes())):
            if "rank" in message:
                self._join(message, self.connection.recv_bytes())
            elif self.is_member:
                self._repeat(message)
        as_shared(self.model).learn_alone()
        self.connection.send_bytes(OVER)

    def _join(self, message: Mapping[str, Any], state: bytes) -> None:
        """Enter a group with the state that the learner has now."""
        shared, self.is_member = as_shared(self.model), False
        shared.learn_alone()
        self.model.restore(unpack_state(state))
        try:
            store, host = open_store(message, self.leader_host), find_own_host(self.connection)
            shared.learn_with(Peers(form_group(store, message["rank"], message["size"], host, self.device)))
        except RuntimeError as error:  # of torch.distributed: another process is gone
            log_event(log, "others lost", logging.WARNING, model=self.name, reason=str(error))
            return
        self.is_member = True
        log_event(log, "learning with others", model=self.name, rank=message["rank"], processes=message["size"])

    def _repeat(self, message: Mapping[str, Any]) -> None:
        """Learn what the learner learns. Once another process is lost, wait for the next group."""
        if "learn" in message:
            self.model.learn([unpack_example(fields) for fields in message["learn"]])
        else:
            self.model.drifted(message["drifted"], message["since"])
        self.is_member = not as_shared(self.model).is_alone


def open_store(message: Mapping[str, Any], leader_host: str) -> Store:
    """Where the ranks find each other."""
    if "file" in message:
        return FileStore(message["file"], message["size"])
    return TCPStore(leader_host, message["port"], is_master=False, wait_for_workers=False)
