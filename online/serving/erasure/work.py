"""The steps of an erasure. Each is repeated harmlessly, and the store says which comes next.

    of each model   retract --> unlearn --> void --> copy --> relearn --> snapshots --> done
    of the whole    models --> files --> database --> done

    retract    feedback of the user, and about their questions, is retracted; words, name and features are blanked
    unlearn    a durable snapshot has learned the retractions: from now on no answer depends on the user
    void       their events in the log become void; classes that only they named are removed from recorded answers
    copy       the copy in Redis is deleted and written again
    relearn    the learner learns the log again beside its work, and publishes what a run without the user gives
    snapshots  every older snapshot is deleted, with its labels, and every report
    files      uploads and files of jobs that name the user
    database   the name is forgotten, the files of the database are cleaned, the statement is signed

Everything is done in pieces of a few milliseconds beside the service. `advance` returns whether anything was done.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from online.errors import NotFound
from online.serving.erasure import files
from online.serving.erasure.statement import FORMAT, digest_user, sign_statement
from online.serving.feedback.retraction import record_retractions
from online.settings import ModelSettings
from online.snapshots import Snapshots
from online.snapshots.manifest import Manifest
from online.store import now
from online.store.callers.held_feedback import delete_held_of
from online.store.callers.quotas import delete_quotas_of
from online.store.callers.standing import delete_standing_of
from online.store.database.scrubbing import scrub
from online.store.deletion.event_expiry import load_expiry
from online.store.deletion.expired_events import remove_feedback_events
from online.store.erasure import jobs, log, relearnings, words
from online.store.erasure.jobs import ErasureModelRow, ErasureRow
from online.workspace import Workspace

T = TypeVar("T")

CHUNK = 50  # feedback or predictions in one transaction, for which other writers wait some milliseconds
PAGE = 1_000  # predictions read at once in the search for removed classes
UNLEARN_WAIT_S = 60.0  # for the learner to take the retractions; later they are void, and `relearn` covers them too
FEEDBACK, LABEL, REMOVED = "feedback", "label", "removed"  # kinds of items
DONE = "done"


class StreamCopy(Protocol):
    """A copy of the log that can be deleted and written again. rebuilds: how often it was."""

    rebuilds: int

    def request_rebuild(self) -> None:
        """Return at once; `rebuilds` counts it once it is done."""


@dataclass(frozen=True, slots=True)
class ErasableModel:
    """One model, as an erasure sees it.

    copy: of the log in Redis, if there is one. forget_counts: drops what the process has counted from the log.
    """

    spec: ModelSettings
    snapshots: Snapshots
    copy: StreamCopy | None
    forget_counts: Callable[[], None]


class ErasureWork:
    """Begins erasures, and does their next steps. For one thread at a time."""

    def __init__(
        self,
        workspace: Workspace,
        models: Mapping[str, ErasableModel],
        job_files: files.JobFiles,
        is_making_report: Callable[[str], bool],
    ) -> None:
        self.workspace, self.store, self.models = workspace, workspace.store, models
        self.job_files, self.is_making_report = job_files, is_making_report
        self._waiting_since: dict[tuple[str, str], float] = {}
        self._copies_before: dict[tuple[str, str], int] = {}  # rebuilds of the copy before this erasure asked for one

    def begin(self, id: str, user: str, models: Sequence[str]) -> None:
        """Record an erasure, and do the first step of each model: what the caller is told at once."""
        row = ErasureRow(
            id=id, user=user, user_digest=digest_user(self.workspace.keys, user), step="models", created_at=now()
        )
        self._commit(lambda connection: jobs.add_erasure(connection, row, models, "retract"))
        for model in self.store.read(lambda connection: jobs.load_models(connection, id)):
            self._advance_model(row, model)

    def advance(self, id: str) -> bool:
        """Do what can be done now of one erasure; return whether anything was."""
        row, models = self.load(id)
        if row.ended_at is not None:
            return False
        if row.step == "models":
            moved = [self._advance_model(row, model) for model in models]
            if all(model.step == DONE for model in self.load(id)[1]):
                self._commit(lambda connection: jobs.save_findings(connection, id, "files", {}))
                return True
            return any(moved)
        return self._remove_files(row) if row.step == "files" else self._clean_database(row)

    def load(self, id: str) -> tuple[ErasureRow, list[ErasureModelRow]]:
        """Raises NotFound."""

        def read(connection: Connection) -> tuple[ErasureRow | None, list[ErasureModelRow]]:
            return jobs.load_erasure(connection, id), jobs.load_models(connection, id)

        row, models = self.store.read(read)
        if row is None:
            raise NotFound(f"there is no erasure {id[:40]!r}")
        return row, models

    def list_unfinished(self) -> list[str]:
        ids: list[str] = self.store.read(jobs.list_unfinished)
        return ids

    # the steps of a model

    def _advance_model(self, row: ErasureRow, model: ErasureModelRow) -> bool:
        if model.step == DONE:
            return False
        if model.model not in self.models:  # it is not configured any more, so nothing of it is learned or served
            self._save(row, model, DONE, not_configured=True)
            return True
        steps: Mapping[str, Callable[[ErasureRow, ErasureModelRow, ErasableModel], bool]] = {
            "retract": self._retract,
            "unlearn": self._wait_until_unlearned,
            "void": self._void,
            "copy": self._rewrite_copy,
            "relearn": self._relearn,
            "snapshots": self._remove_snapshots,
        }
        return steps[model.step](row, model, self.models[model.model])

    def _retract(self, row: ErasureRow, model: ErasureModelRow, erasable: ErasableModel) -> bool:
        name, user = model.model, row.user or ""
        self._note_state_before(row, model, erasable)
        for ids in in_chunks(self.store.read(partial(words.list_feedback, model=name, user=user))):
            self._commit(partial(self._retract_feedback, row, erasable, ids, [], "feedback"), durable=False)
        after = ""
        while ids := self.store.read(partial(words.list_predictions, model=name, user=user, after=after, count=CHUNK)):
            self._retract_about(row, erasable, ids)
            after = ids[-1]
        self._commit(partial(self._delete_conversations, row, name))
        self._save(row, model, "unlearn")
        return True

    def _note_state_before(self, row: ErasureRow, model: ErasureModelRow, erasable: ErasableModel) -> None:
        live = erasable.snapshots.live()
        if "before" not in json.loads(model.counts) and live is not None:
            manifest = erasable.snapshots.manifest(live.version)
            self._save(row, model, model.step, before=describe_state(manifest))

    def _retract_about(self, row: ErasureRow, erasable: ErasableModel, predictions: Sequence[str]) -> None:
        """Retract the feedback about questions of the user, and blank the questions."""
        name = erasable.spec.name
        about = self.store.read(partial(words.list_feedback_about, model=name, predictions=predictions))
        own = [id for id, user in about if user is None]
        foreign = [id for id, user in about if user is not None]
        for ids, others, count in ((own, [], "feedback_without_user"), (foreign, foreign, "feedback_of_others")):
            for chunk in in_chunks(ids):
                self._commit(partial(self._retract_feedback, row, erasable, chunk, others, count), durable=False)

        def blank(connection: Connection) -> None:
            words.blank_predictions(connection, name, predictions)
            jobs.add_counts(connection, row.id, name, {"predictions": len(predictions)})

        self._commit(blank, durable=False)

    def _retract_feedback(
        self,
        row: ErasureRow,
        erasable: ErasableModel,
        ids: Sequence[str],
        of_others: Sequence[str],
        count: str,
        connection: Connection,
    ) -> None:
        """of_others: those whose words stay, because another user gave them. count: the name under which they count."""
        name = erasable.spec.name
        last = record_retractions(connection, erasable.spec, ids)
        new = jobs.add_items(connection, row.id, name, FEEDBACK, ids)
        words.blank_feedback(connection, name, [id for id in ids if id not in of_others])
        jobs.add_counts(connection, row.id, name, {count: new, **({"offset": [last]} if last else {})})

    @staticmethod
    def _delete_conversations(row: ErasureRow, model: str, connection: Connection) -> None:
        user = row.user or ""
        count, held = words.delete_conversations(connection, model, user), delete_held_of(connection, model, user)
        delete_quotas_of(connection, user)
        delete_standing_of(connection, model, user)
        jobs.add_counts(connection, row.id, model, {"conversations": count, **({"held": held} if held else {})})

    def _wait_until_unlearned(self, row: ErasureRow, model: ErasureModelRow, erasable: ErasableModel) -> bool:
        last = last_offset(model)
        durable = find_durable(erasable.snapshots, last) if last else None
        waited_s = time.monotonic() - self._waiting_since.setdefault((row.id, model.model), time.monotonic())
        is_frozen = erasable.snapshots.frozen() is not None
        if last and durable is None and not is_frozen and waited_s < UNLEARN_WAIT_S:
            return False
        self._save(row, model, "void", **({} if durable is None else {"unlearned": describe_state(durable)}))
        return True

    def _void(self, row: ErasureRow, model: ErasureModelRow, erasable: ErasableModel) -> bool:
        name = model.model
        while ids := self._items(row, name, FEEDBACK, CHUNK):
            self._commit(partial(self._void_feedback, row, erasable.spec, ids), durable=False)
        erasable.forget_counts()
        self._commit(partial(self._find_removed_labels, row, name))
        erasable.forget_counts()
        self._remove_labels(row, erasable.spec)
        voided = json.loads(self.load_model(row.id, name).counts).get("events", 0)
        expired = self.store.read(lambda connection: load_expiry(connection, name)).learned_count
        self._save(row, model, "copy" if voided else DONE, **({"expired_events": expired} if expired else {}))
        return True

    def _void_feedback(self, row: ErasureRow, spec: ModelSettings, ids: Sequence[str], connection: Connection) -> None:
        name = spec.name
        count, labels = log.void_events(connection, name, ids)
        expired_count, expired_labels = remove_feedback_events(connection, name, ids)
        count, labels = count + expired_count, [*labels, *expired_labels]
        kept = log.list_kept_replies(connection, name, ids)
        pattern = files.name_pattern(row.user or "")
        for id in ids:
            if pattern.search(id.encode()):
                new = f"erased-{digest_user(self.workspace.keys, f'{name}/{id}')[:32]}"
                words.rename_feedback(connection, name, id, new)
                log.rename_feedback_of_events(connection, name, id, new)
        jobs.add_items(connection, row.id, name, LABEL, labels)
        jobs.drop_items(connection, row.id, name, FEEDBACK, ids)
        jobs.add_counts(connection, row.id, name, {"events": count, "replies_kept": kept})

    @staticmethod
    def _find_removed_labels(row: ErasureRow, model: str, connection: Connection) -> None:
        labels = jobs.load_items(connection, row.id, model, LABEL)
        unnamed = log.find_unnamed_labels(connection, model, labels)
        log.forget_labels(connection, model, unnamed, [*unnamed, row.user or ""])
        log.forget_counts(connection, model)
        jobs.add_items(connection, row.id, model, REMOVED, unnamed)
        jobs.drop_items(connection, row.id, model, LABEL, labels)
        jobs.add_counts(connection, row.id, model, {"labels": len(unnamed)})

    def _remove_labels(self, row: ErasureRow, spec: ModelSettings) -> None:
        """Leave classes that nobody names any more out of the answers that others got."""
        labels = set(self._items(row, spec.name, REMOVED))
        page = partial(words.load_answers_with, model=spec.name, labels=labels, count=PAGE)
        after: str | None = "" if labels else None
        while after is not None:
            found, last = self.store.read(partial(page, after=after))
            for rows in in_chunks(found):
                self._commit(partial(words.remove_labels, rows=rows, labels=labels), durable=False)
            after = last or None

    def _rewrite_copy(self, row: ErasureRow, model: ErasureModelRow, erasable: ErasableModel) -> bool:
        copy, key = erasable.copy, (row.id, model.model)
        if copy is None:
            self._save(row, model, "relearn")
            return True
        if key not in self._copies_before:
            self._copies_before[key] = copy.rebuilds
            copy.request_rebuild()
            return True
        if copy.rebuilds == self._copies_before[key]:
            return False
        self._save(row, model, "relearn", redis_copy="deleted and written again")
        return True

    def _relearn(self, row: ErasureRow, model: ErasureModelRow, erasable: ErasableModel) -> bool:
        asked_at = json.loads(model.counts).get("relearn_offset")
        if asked_at is None:
            offset = self._commit(lambda connection: log.ask_to_relearn(connection, model.model, row.id))
            self._save(row, model, "relearn", relearn_offset=offset)
            return True
        durable = find_durable(erasable.snapshots, asked_at)
        if durable is None:
            return False
        found = self.store.read(lambda connection: relearnings.find_relearning(connection, model.model, asked_at))
        proof = {} if found is None else {"compared": describe_relearning(found)}
        older = [version for version in erasable.snapshots.versions() if version < durable.version]
        names = sorted(name for name, each in erasable.snapshots.labels().items() if each.version < durable.version)
        self._save(
            row,
            model,
            "snapshots",
            after=describe_state(durable),
            versions_removed=len(older),
            labels_removed=dict.fromkeys(names, "its version was deleted"),
            **proof,
        )
        return True

    def _remove_snapshots(self, row: ErasureRow, model: ErasureModelRow, erasable: ErasableModel) -> bool:
        if self.is_making_report(model.model):
            return False
        erasable.snapshots.remove_before(json.loads(model.counts)["after"]["version"])
        reports = files.remove_reports(self.workspace, model.model)
        self._save(row, model, DONE, reports_removed=reports)
        return True

    # the steps of the whole

    def _remove_files(self, row: ErasureRow) -> bool:
        try:
            found = files.remove_files(self.workspace, self.job_files, row.user or "")
        except files.Busy:
            return False
        self._commit(lambda connection: jobs.save_findings(connection, row.id, "database", {"files": found}))
        self._commit(lambda connection: jobs.forget_name(connection, row.id, "database"))
        return True

    def _clean_database(self, row: ErasureRow) -> bool:
        if row.user is not None:  # killed between two commits
            self._commit(lambda connection: jobs.forget_name(connection, row.id, "database"))
        cleaned = scrub(self.store)
        if cleaned is None:
            return False
        statement = json.dumps(self._state(row, cleaned))
        self._commit(lambda connection: jobs.end_erasure(connection, row.id, DONE, statement))
        return True

    def _state(self, row: ErasureRow, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        models = self.load(row.id)[1]
        statement = {
            "format": FORMAT,
            "id": row.id,
            "user_digest": row.user_digest,
            "requested_at": row.created_at,
            "ended_at": now(),
            "models": {model.model: describe_model(model) for model in models},
            "files": json.loads(row.findings).get("files", {}),
            "database": cleaned,
        }
        return sign_statement(self.workspace.keys, statement)

    # the store

    def load_model(self, id: str, model: str) -> ErasureModelRow:
        return next(each for each in self.load(id)[1] if each.model == model)

    def _items(self, row: ErasureRow, model: str, kind: str, count: int | None = None) -> list[str]:
        items: list[str] = self.store.read(lambda connection: jobs.load_items(connection, row.id, model, kind, count))
        return items

    def _commit(self, work: Callable[[Connection], Any], durable: bool = True) -> Any:
        """durable: False for a piece of a step; the commit that ends the step makes it durable too."""
        return self.store.submit(work, durable).result()

    def _save(self, row: ErasureRow, model: ErasureModelRow, step: str, **counts: Any) -> None:
        """Save the next step of a model, with what this one has found, in one transaction."""

        def save(connection: Connection) -> None:
            if counts:
                jobs.set_counts(connection, row.id, model.model, counts)
            jobs.save_step(connection, row.id, model.model, step)

        self._commit(save)


def in_chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))


def last_offset(model: ErasureModelRow) -> int:
    """The offset of the last retraction; 0 if there was none."""
    return max(json.loads(model.counts).get("offset", []), default=0)


def find_durable(snapshots: Snapshots, offset: int) -> Manifest | None:
    """Return the first durable snapshot that has learned an offset."""
    durable = [each for each in snapshots.manifests() if each.durable and each.learned_until >= offset]
    return min(durable, key=lambda each: each.version, default=None)


def describe_state(manifest: Manifest) -> dict[str, Any]:
    return {name: getattr(manifest, name) for name in ("version", "learned_until", "state_sha256")}


def describe_relearning(row: relearnings.RelearningRow) -> dict[str, Any]:
    return {
        "learned_until": row.learned_until,
        "state_sha256_user_subtracted": row.subtracted_sha256,
        "state_sha256_learned_without_user": row.relearned_sha256,
        "is_same": row.subtracted_sha256 == row.relearned_sha256,
    }


def describe_model(model: ErasureModelRow) -> dict[str, Any]:
    """What was removed of a model, for the statement."""
    counts = json.loads(model.counts)
    kept = {name: value for name, value in counts.items() if name not in ("offset", "relearn_offset")}
    return {"feedback": 0, "predictions": 0, "events": 0, **kept}
