"""What is done where the live version is worse than those before it: it is taken back, at once, by whoever sees it.

    the loss rises (learning/learner.py)              --\
    it abstains, or is slow (serving/watching.py)     ----> LIVE to the newest version from before --> nothing more is learned
                                                            --> somebody looks

It may be an attack, a broken client, or the world. A detector cannot tell them apart, so it is a person who says what the
feedback since is worth (online/quarantine.py); until then nothing of it can make answers worse.
"""

import logging

from online import quarantine
from online.errors import Conflict, CorruptSnapshot, NotFound
from online.observability import fact
from online.quarantine import QuarantineRow
from online.snapshots import Frozen, Snapshots
from online.store import Store, now

log = logging.getLogger("online.guard")


class Guard:
    def __init__(self, snapshots: Snapshots, store: Store, recipe: str) -> None:
        self.snapshots, self.store, self.recipe = snapshots, store, recipe

    def act(self, offset: int, since: int, reason: str) -> None:
        """offset: of the event that showed it; since: the first that may be to blame.

        After a crash the same comes again: what was done stays done, and is done only once.
        """
        older = self.snapshots.before(since, self.recipe)
        row = QuarantineRow(
            model=self.snapshots.model,
            offset=offset,
            since=since,
            until=None,
            reason=reason,
            rolled_back_to=older.version if older else None,
            created_at=now(),
            ended_at=None,
            outcome=None,
        )
        if self.store.submit(lambda connection: quarantine.begin(connection, row)).result():
            self._carry_out(row)

    def finish(self) -> None:
        """Carry out what was begun by a process that was killed before it was done."""
        row = self.store.read(lambda connection: quarantine.open_of(connection, self.snapshots.model))
        if row is not None and self.snapshots.frozen() is None:
            self._carry_out(row)

    def _carry_out(self, row: QuarantineRow) -> None:
        """Freezing comes last: once that stands, all of it does."""
        if row.rolled_back_to is not None:
            self._roll_back(row.rolled_back_to)
        self.snapshots.freeze(Frozen(row.created_at, f"the guard: {row.reason}"))
        fact(
            log,
            "quarantine",
            logging.WARNING,
            model=row.model,
            since=row.since,
            version=row.rolled_back_to,
            reason=row.reason,
        )

    def _roll_back(self, version: int) -> None:
        try:
            self.snapshots.roll_back(version, self.recipe)
        except (NotFound, CorruptSnapshot, Conflict) as error:  # what is live goes on, frozen
            fact(log, "not rolled back", logging.ERROR, model=self.snapshots.model, version=version, reason=str(error))
