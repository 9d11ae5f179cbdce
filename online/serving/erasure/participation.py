"""The part of this replica in erasures that other replicas carry out: forget what only this state folder has.

    journal   the predictions that are not in the store yet are copied, and the files deleted: the erasure finds them there
    files     once all models are done: versions set aside, what was made of deleted versions, files that name the user

A replica that was away while an erasure ended does not know the name any more, only its keyed digest. Before it answers again, it leaves
the predictions of that user out of the journal, and deletes all files that could name the user: they can be made or sent again.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial

from sqlalchemy import Connection

from online.installed import collect
from online.serving.erasure.files import FileInUse, NameSearch
from online.serving.erasure.progress import ModelErasure, in_chunks
from online.serving.erasure.statement import digest_user
from online.serving.erasure.versions import forget_files, has_foreign
from online.serving.erasure.work import ErasureWork
from online.store.erasure import words
from online.store.erasure.jobs import ErasureModelRow, ErasureRow
from online.store.erasure.replicas import (
    DONE,
    FILES,
    JOURNAL,
    ErasureReplicaRow,
    join_erasures,
    list_missed,
    list_parts,
    save_part,
)
from online.telemetry import log_event

log = logging.getLogger("online.erasure")

BLANKED = 200  # predictions of one transaction


class ErasureParticipation:
    """Does the parts of one replica. For one thread at a time."""

    def __init__(self, work: ErasureWork) -> None:
        self.work, self.workspace, self.store = work, work.workspace, work.store

    @property
    def replica(self) -> str:
        """The name of this replica."""
        return self.workspace.replica

    def catch_up(self) -> None:
        """Before this replica answers: forget those who were erased while it was away. Raises Unavailable."""
        missed = self._list_missed()
        if self.workspace.is_new:
            self._commit(partial(note_missed, missed=missed, replica=self.replica))
        elif missed:
            self._forget_missed(missed)
        unfinished = self.work.list_unfinished()
        names = {row.user for row in (self.work.load(id)[0] for id in unfinished)}
        if names:
            self.workspace.empty_journal(lambda user, at: user in names)
        self._commit(partial(join_erasures, replica=self.replica, unfinished=unfinished))

    def advance(self) -> bool:
        """Do what can be done now; return whether anything was. Raises Unavailable."""
        parts: list[ErasureReplicaRow] = self.store.read(partial(list_parts, replica=self.replica))
        moved = [self._advance(part) for part in parts]
        if missed := self._list_missed():  # this process was stopped, or cut off, while others ended an erasure
            self._forget_missed(missed)
            self._blank_missed(missed)
        return any(moved) or bool(missed)

    def _advance(self, part: ErasureReplicaRow) -> bool:
        row, models = self.work.load(part.erasure)
        if row.user is None:  # it has gone on without this replica: `_forget_missed` does the rest once it has ended
            return False
        if part.step == JOURNAL:
            self.workspace.empty_journal()
            self._save(row.id, FILES)
            return True
        if row.step != "files":
            return False
        try:
            findings = self._forget(row, models)
        except FileInUse:
            return False
        self._save(row.id, DONE, findings)
        return True

    def _forget(self, row: ErasureRow, models: Sequence[ErasureModelRow]) -> dict[str, object]:
        """Return what was removed from the files of this replica. Raises FileInUse."""
        found: dict[str, object] = {}
        context = self.work.context
        for model in models:
            if (erasable := self.work.models.get(model.model)) is not None:
                found[model.model] = self._forget_model(ModelErasure(context, row, model, erasable))
        name = NameSearch(row.user or "")
        for each in collect("forget_in_files", self.workspace, name, context.parts):
            found |= each
        return found

    def _forget_model(self, erasure: ModelErasure) -> dict[str, object]:
        """Raise FileInUse while this folder still has versions from before the erasure, or of another log."""
        manifests = erasure.snapshots.folder.manifests()
        first = erasure.counts.get("after", {}).get("version", 0)
        if any(each.version < first for each in manifests) or has_foreign(erasure, manifests):
            raise FileInUse(f"versions of {erasure.name}, which are about to be deleted")
        erasure.erasable.forget_counts()
        removed = len(erasure.snapshots.aside.versions())
        if removed:
            erasure.snapshots.aside.delete()
        return {"set_aside_removed": removed, **forget_files(erasure)}

    def _list_missed(self) -> list[ErasureRow]:
        missed: list[ErasureRow] = self.store.read(partial(list_missed, replica=self.replica))
        return missed

    def _forget_missed(self, missed: Sequence[ErasureRow]) -> None:
        self.workspace.empty_journal(self._build_filter(missed))
        removed = self.workspace.discard_derived_files()
        for erasable in self.work.models.values():
            erasable.forget_counts()
            erasable.snapshots.aside.delete()
        self._commit(partial(note_missed, missed=missed, replica=self.replica))
        log_event(log, "erasures caught up", logging.WARNING, count=len(missed), removed=",".join(removed))

    def _build_filter(self, missed: Sequence[ErasureRow]) -> Callable[[str | None, str], bool]:
        ends = {row.user_digest: row.ended_at or "" for row in missed}
        digest = lru_cache(maxsize=10_000)(partial(digest_user, self.workspace.keys))
        return lambda user, at: user is not None and at <= ends.get(digest(user), "")

    def _blank_missed(self, missed: Sequence[ErasureRow]) -> None:
        """Blank predictions that a copier of this replica has brought into the store after an erasure had ended."""
        latest = max(row.ended_at or "" for row in missed)
        search = partial(words.list_predictions_of_digests, until=latest, is_erased=self._build_filter(missed))
        found: dict[str, list[str]] = self.store.read(search)
        for model, ids in found.items():
            for some in in_chunks(ids, BLANKED):
                self._commit(partial(words.blank_predictions, model=model, ids=some))

    def _save(self, erasure: str, step: str, findings: dict[str, object] | None = None) -> None:
        self._commit(partial(save_part, erasure=erasure, replica=self.replica, step=step, findings=findings))

    def _commit(self, work: Callable[[Connection], None]) -> None:
        self.store.submit(work, is_background=True).result()


def note_missed(connection: Connection, missed: Collection[ErasureRow], replica: str) -> None:
    """Note that a replica has caught up with erasures."""
    for row in missed:
        save_part(connection, row.id, replica, DONE)
