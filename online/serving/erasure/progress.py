"""One model of one erasure on its way: what the store knows of it, and how its steps commit what they do.

ErasureContext --one for all erasures-->  ModelErasure --step(erasure)--> the store: what was done, and the next step
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import Connection

from online.installed import ContributedParts
from online.schemas.json_values import JSON, JSONObject
from online.serving.erasure.replicas import OtherReplicas
from online.settings import ModelSettings
from online.snapshots import Snapshots
from online.state.workspace import Workspace
from online.store.erasure import jobs
from online.store.erasure.jobs import ErasureModelRow, ErasureRow
from online.stream.contract import StreamCopy

T = TypeVar("T")

FEEDBACK, LABEL, REMOVED = "feedback", "label", "removed"  # kinds of items
DONE = "done"


@dataclass(frozen=True, slots=True)
class ErasableModel:
    """One model, as an erasure sees it.

    copy: of the log in Redis, if there is one. forget_counts: drops what the process has counted from the log.
    """

    spec: ModelSettings
    snapshots: Snapshots
    copy: StreamCopy | None
    forget_counts: Callable[[], None]


@dataclass(frozen=True, slots=True)
class ErasureContext:
    """The context that the steps of all erasures share.

    parts: of the running service; none where it is stopped. others: the other replicas of the service. waiting_since, copies_before: by erasure and model, when the wait for the learner
    began, and the rebuilds of the copy before this erasure asked for one. A process that is killed forgets both.
    """

    workspace: Workspace
    parts: ContributedParts
    others: OtherReplicas
    waiting_since: dict[tuple[str, str], float] = field(default_factory=dict)
    copies_before: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelErasure:
    """One model of one erasure, at its present step.

    on_retracted: called in this thread once all feedback of the user is retracted.
    """

    context: ErasureContext
    row: ErasureRow
    model: ErasureModelRow
    erasable: ErasableModel
    on_retracted: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.model

    @property
    def user(self) -> str:
        """The user who is erased; "" once the name is forgotten."""
        return self.row.user or ""

    @property
    def spec(self) -> ModelSettings:
        """The settings of the model."""
        return self.erasable.spec

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots of the model."""
        return self.erasable.snapshots

    @property
    def key(self) -> tuple[str, str]:
        """The key of its row."""
        return self.row.id, self.name

    @property
    def counts(self) -> JSONObject:
        """What was counted when the step began."""
        return dict(json.loads(self.model.counts))

    @property
    def last_retraction(self) -> int:
        """The offset of the last retraction; 0 if there was none."""
        return last_offset(self.model)

    def load_counts(self) -> JSONObject:
        """Return what has been counted until now."""
        return self.read(lambda connection: jobs.load_counts(connection, *self.key))

    def read(self, query: Callable[[Connection], T]) -> T:
        """Run a query on the store."""
        found: T = self.context.workspace.store.read(query)
        return found

    def commit(self, work: Callable[[Connection], T], durable: bool = True) -> T:
        """durable: False for a piece of a step; the commit that ends the step makes it durable too."""
        done: T = self.context.workspace.store.submit(work, durable, is_background=True).result()
        return done

    def load_items(self, kind: str, count: int | None = None) -> list[str]:
        """Return what is still to do of one kind."""
        return self.read(lambda connection: jobs.load_items(connection, *self.key, kind, count))

    def add_counts(self, connection: Connection, **counts: JSON) -> None:
        """Add to the counts of the statement."""
        jobs.add_counts(connection, *self.key, counts)

    def note(self, **counts: JSON) -> None:
        """Save what this step has found so far, whatever it was before."""
        self.commit(lambda connection: jobs.set_counts(connection, *self.key, counts), durable=False)

    def save(self, step: str, **counts: JSON) -> None:
        """Save the next step, with what this one has found, in one transaction."""

        def save(connection: Connection) -> None:
            if counts:
                jobs.set_counts(connection, *self.key, counts)
            jobs.save_step(connection, *self.key, step)

        self.commit(save)


def in_chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in chunks."""
    return (items[start : start + size] for start in range(0, len(items), size))


def last_offset(model: ErasureModelRow) -> int:
    """Return the offset of the last retraction of a model; 0 if there was none."""
    return max(json.loads(model.counts).get("offset", []), default=0)
