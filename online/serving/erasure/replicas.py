"""The other replicas, as the replica sees them that carries out an erasure: it asks them, waits for them, and names them.

One replica at a time carries out an erasure, by a lease; if it is killed, another one goes on once the lease has expired.
"""

import threading
import time

from sqlalchemy import Connection

from online.schemas.json_values import JSONObject
from online.state.workspace import Workspace
from online.store.erasure import replicas
from online.store.leases import LeaseToken, end_lease, take_lease

LEASE_S = 60.0
JOURNALS_S, POLL_S = 3.0, 0.05  # for which the request for an erasure waits for the journals of others


class OtherReplicas:
    """The other replicas that share the store. Where it is not shared there are none, and nothing is asked."""

    def __init__(self, workspace: Workspace) -> None:
        self.store, self.workspace = workspace.store, workspace
        self._late: set[str] = set()  # erasures that have begun before all journals were empty
        self._repeated: set[tuple[str, str]] = set()  # erasures and models that were retracted once more after that

    def ask(self, connection: Connection, erasure: str) -> None:
        """Ask those that are present for their parts, in the transaction in which the erasure begins."""
        if self.store.is_shared:
            take_lease(connection, lease_of(erasure), self.workspace.replica, LEASE_S)
            replicas.ask_replicas(connection, erasure, self.workspace.replica)

    def claim(self, erasure: str) -> bool:
        """Return whether this replica carries out an erasure now. Raises Unavailable."""
        if not self.store.is_shared:
            return True
        replica = self.workspace.replica
        fence: LeaseToken | None = self.store.submit(
            lambda connection: take_lease(connection, lease_of(erasure), replica, LEASE_S), is_background=True
        ).result()
        return fence is not None

    def wait_for_journals(self, erasure: str) -> None:
        """Return once the journals of the others are in the store, or after JOURNALS_S. Raises Unavailable."""
        end, pause = time.monotonic() + JOURNALS_S, threading.Event()
        while self.list_behind(erasure, replicas.FILES):
            if time.monotonic() > end:
                self._late.add(erasure)
                return
            pause.wait(POLL_S)

    def were_late(self, key: tuple[str, str]) -> bool:
        """Return, once for each model, whether the erasure has begun before all journals were empty. key: erasure and model."""
        if key[0] not in self._late or key in self._repeated:
            return False
        self._repeated.add(key)
        return True

    def list_behind(self, erasure: str, step: str) -> list[str]:
        """Return the replicas that are present and have not come to a step of their parts. Raises Unavailable."""
        if not self.store.is_shared:
            return []
        found: list[str] = self.store.read(lambda connection: replicas.list_behind(connection, erasure, step))
        return found

    def describe(self, erasure: str) -> JSONObject:
        """Return what the statement says of the other replicas; nothing where there are none. Raises Unavailable."""
        if not self.store.is_shared:
            return {}
        own = self.workspace.replica
        found: JSONObject = self.store.read(lambda connection: replicas.describe_parts(connection, erasure, own))
        return found

    def end(self, connection: Connection, erasure: str) -> None:
        """Note that this replica has done its part, in the transaction in which the erasure ends."""
        if self.store.is_shared:
            replicas.save_part(connection, erasure, self.workspace.replica, replicas.DONE)
            end_lease(connection, lease_of(erasure))


def lease_of(erasure: str) -> str:
    """Return the name of the lease on an erasure, which no model can have."""
    return f":erasure:{erasure}"
