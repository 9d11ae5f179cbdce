"""The readiness of a model: to answer, to record its answers, and to take feedback.

versions load?  log the learned one?  base live?  first repertoire learned?  --> reason, or ready
journal opens?  store answers?                                               --> can record, can take feedback
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from online.errors import LogReplaced, Unavailable
from online.journal import JournalWriter
from online.serving.live import LiveModel
from online.serving.transactions import Transactions
from online.serving.versions import ServedVersion
from online.state.base_snapshot import find_base, missing_until
from online.store.events import check_log, head_of
from online.store.publications import has_learned_version


@dataclass(frozen=True, slots=True)
class ModelReadiness:
    """The readiness of a model to answer, and to record its answers. head: newest offset; None without a store.

    reason: why it cannot. store_error: why the store does not answer: no feedback is taken then.
    """

    reason: str | None
    head: int | None
    store_error: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the model can answer."""
        return self.reason is None


@dataclass(slots=True)
class Readiness:
    """The facts that decide whether a model is ready.

    starter_until: offset that a version must have learned before the model is ready; 0: none.
    """

    live: LiveModel
    transactions: Transactions
    journal: JournalWriter
    starter_until: int = 0
    _starter_was_learned: bool = False
    _has_base: bool = False
    _has_published: bool = False

    @property
    def unready_reason(self) -> str | None:
        """Why the model cannot answer yet; None if it can. This is quick: it does not read the store.

        A version that is about to be loaded for the first time is not a reason: until then the model
        answers as one that has learned nothing.
        """
        if self.live.unservable:
            return "it has versions, and none of them can be loaded"
        notice = self.live.set_aside
        if notice is not None and not notice.learned_again and self.live.frozen is None:
            return f"it learns its log again: {notice.reason}"
        if self.waits_for_base and self._has_published:
            return "other replicas answer with a version that is not here yet: it is fetched, or learned from the log"
        if self.waits_for_base:
            return "it begins with a base, which is not live yet: its learner makes it the first version"
        return None if self.has_learned_starter else "its first repertoire is not learned yet"

    @property
    def waits_for_base(self) -> bool:
        """Whether the model answers as one that has learned nothing although it has a base, or others have versions of it."""
        return (self._has_base or self._has_published) and not self.live.current.version

    async def look_for_base(self) -> None:
        """Note whether the model has a base that no version rests on yet. Without the store it stays unknown."""
        with suppress(Unavailable):
            await self.transactions.read(self._note_base)

    def _note_base(self, connection: Connection) -> None:
        if not self.live.current.version:
            self._has_base = find_base(connection, self.live.snapshots, self.live.encoder_config.recipe) is not None
            self._has_published = has_learned_version(connection, self.live.snapshots.model)

    @property
    def missing_until(self) -> int:
        """The offset up to which the live version lacks what had expired before it could learn it; 0: it lacks nothing."""
        loaded = self.live.current.loaded
        return 0 if loaded is None else missing_until(loaded.manifest.metrics)

    @property
    def has_learned_starter(self) -> bool:
        """Whether a live version has ever learned the first repertoire, if it waits for one."""
        if not self._starter_was_learned:  # once is enough: a later roll-back does not make it unready
            self._starter_was_learned = self.live.current.learned_until >= self.starter_until
        return self._starter_was_learned

    async def check(self) -> ModelReadiness:
        """Also ask the journal, and the store, whose log must be the one that was learned.

        Without the store, predictions go on, and wait for it in the journal.
        """
        try:
            self.journal.open()
        except Unavailable as error:
            return ModelReadiness(str(error), None)
        try:
            head, difference = await self.transactions.read(partial(self._compare_log, served=self.live.current))
            await self.transactions.write(lambda connection: None)
        except Unavailable as error:
            return ModelReadiness(self.unready_reason, None, str(error))
        return ModelReadiness(difference or self.unready_reason, head)

    def _compare_log(self, connection: Connection, served: ServedVersion) -> tuple[int, str | None]:
        """Return the last offset, and in what the log is not the one that a version has learned."""
        digest, name = served.loaded.manifest.log_digest if served.loaded else "", self.transactions.name
        self._note_base(connection)
        try:
            check_log(connection, name, served.learned_until, digest)
        except LogReplaced as error:
            return head_of(connection, name), str(error)
        return head_of(connection, name), None
