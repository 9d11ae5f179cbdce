"""The steps of an erasure. Each is repeated harmlessly, and the store says which comes next.

    of each model   retract --> unlearn --> void --> copy --> relearn --> snapshots --> set_aside --> done
    of the whole    models --> files --> database --> done

    retract    feedback of the user, and about their questions, is retracted; words, name and features are blanked
    unlearn    a durable snapshot has learned the retractions: from now on no answer depends on the user
    void       their events in the log become void; classes that only they named are removed from recorded answers
    copy       the copy in Redis is deleted and written again
    relearn    the learner learns the log again beside its work, and publishes what a run without the user gives
    snapshots  every older snapshot is deleted, with its labels, and what plugins made of it
    set_aside  every snapshot that was learned from another log is deleted
    files      files of plugins that name the user; then every other replica that is present has done its part (participation.py)
    database   the name is forgotten, the files of the database are cleaned, the statement is signed

A model whose log has no event of the user goes from `void` to `set_aside`. Everything is done in pieces of a few
milliseconds beside the service. `advance` returns whether anything was done.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sqlalchemy import Connection

from online.errors import NotFound
from online.installed import ContributedParts, collect
from online.schemas.json_values import JSONObject
from online.serving.erasure.files import FileInUse, NameSearch
from online.serving.erasure.progress import DONE, ErasableModel, ErasureContext, ModelErasure
from online.serving.erasure.replicas import OtherReplicas
from online.serving.erasure.retraction import retract
from online.serving.erasure.statement import FORMAT, describe_model, digest_user, sign_statement
from online.serving.erasure.versions import relearn, remove_set_aside, remove_snapshots, wait_until_unlearned
from online.serving.erasure.voiding import rewrite_copy, void
from online.state.workspace import Workspace
from online.store import now
from online.store.database.scrubbing import scrub
from online.store.erasure import jobs
from online.store.erasure.jobs import ErasureModelRow, ErasureRow

STEPS: Mapping[str, Callable[[ModelErasure], bool]] = {
    "retract": retract,
    "unlearn": wait_until_unlearned,
    "void": void,
    "copy": rewrite_copy,
    "relearn": relearn,
    "snapshots": remove_snapshots,
    "set_aside": remove_set_aside,
}


class ErasureWork:
    """Begins erasures, and does their next steps. For one thread at a time."""

    def __init__(
        self,
        workspace: Workspace,
        models: Mapping[str, ErasableModel],
        parts: ContributedParts,
    ) -> None:
        self.workspace, self.store, self.models = workspace, workspace.store, models
        self.others = OtherReplicas(workspace)
        self.context = ErasureContext(workspace, parts, self.others)

    def begin(self, id: str, user: str, models: Sequence[str], on_retracted: Callable[[], None] = lambda: None) -> None:
        """Record an erasure, and do the first step of each model: the caller learns their counts at once.

        on_retracted: called in this thread, for each model, once all feedback of the user is retracted.
        """
        self.workspace.empty_journal()  # what is recorded of the user is in the store then, and nowhere else
        row = ErasureRow(
            id=id, user=user, user_digest=digest_user(self.workspace.keys, user), step="models", created_at=now()
        )
        self._commit(partial(self._add, row=row, models=models))
        self.others.wait_for_journals(id)
        for model in self.store.read(lambda connection: jobs.load_models(connection, id)):
            self._advance_model(row, model, on_retracted)

    def advance(self, id: str) -> bool:
        """Do what can be done now of one erasure; return whether anything was."""
        row, models = self.load(id)
        if row.ended_at is not None or not self.others.claim(id):
            return False
        if row.step == "models":
            moved = [self._advance_model(row, model) for model in models]
            if all(model.step == DONE for model in self.load(id)[1]):
                self._commit(lambda connection: jobs.save_findings(connection, id, "files", {}))
                return True
            return any(moved)
        return self._remove_files(row) if row.step == "files" else self._clean_database(row)

    def load(self, id: str) -> tuple[ErasureRow, list[ErasureModelRow]]:
        """Return what is stored under an id. Raises NotFound."""

        def read(connection: Connection) -> tuple[ErasureRow | None, list[ErasureModelRow]]:
            return jobs.load_erasure(connection, id), jobs.load_models(connection, id)

        row, models = self.store.read(read)
        if row is None:
            raise NotFound(f"there is no erasure {id[:40]!r}")
        return row, models

    def list_unfinished(self) -> list[str]:
        """Return the ids of erasures that are not finished."""
        ids: list[str] = self.store.read(jobs.list_unfinished)
        return ids

    def _advance_model(
        self, row: ErasureRow, model: ErasureModelRow, on_retracted: Callable[[], None] = lambda: None
    ) -> bool:
        if model.step == DONE:
            return False
        if model.model not in self.models:  # it is not configured any more, so nothing of it is learned or served
            self._commit(lambda connection: end_without_model(connection, model))
            return True
        erasure = ModelErasure(self.context, row, model, self.models[model.model], on_retracted)
        try:
            return STEPS[model.step](erasure)
        except FileInUse:
            return False

    # the steps of the whole

    def _remove_files(self, row: ErasureRow) -> bool:
        if "files" in json.loads(row.findings):
            return self._await_replicas(row)
        user = NameSearch(row.user or "")
        try:
            of_plugins = collect("forget_in_files", self.workspace, user, self.context.parts)
        except FileInUse:
            return False
        found = {name: value for each in of_plugins for name, value in each.items()}
        self._commit(lambda connection: jobs.save_findings(connection, row.id, "files", {"files": found}))
        return True

    def _await_replicas(self, row: ErasureRow) -> bool:
        """Go on once every replica that is present has done its part; those that are absent are named in the statement."""
        if self.others.list_behind(row.id, DONE):
            return False
        parts = self.others.describe(row.id)
        self._commit(lambda connection: jobs.save_findings(connection, row.id, "database", parts))
        self._commit(lambda connection: jobs.forget_name(connection, row.id, "database"))
        return True

    def _clean_database(self, row: ErasureRow) -> bool:
        if row.user is not None:  # killed between two commits
            self._commit(lambda connection: jobs.forget_name(connection, row.id, "database"))
        cleaned = scrub(self.store)
        if cleaned is None:
            return False
        statement = json.dumps(self._sign(row, cleaned))
        self._commit(partial(self._end, id=row.id, statement=statement))
        return True

    def _end(self, connection: Connection, id: str, statement: str) -> None:
        jobs.end_erasure(connection, id, DONE, statement)
        self.others.end(connection, id)

    def _sign(self, row: ErasureRow, cleaned: Mapping[str, object]) -> JSONObject:
        statement = {
            "format": FORMAT,
            "id": row.id,
            "user_digest": row.user_digest,
            "requested_at": row.created_at,
            "ended_at": now(),
            "models": {model.model: describe_model(model) for model in self.load(row.id)[1]},
            "files": {},
            "database": cleaned,
            **json.loads(row.findings),
        }
        return sign_statement(self.workspace.keys, statement)

    def _add(self, connection: Connection, row: ErasureRow, models: Sequence[str]) -> None:
        jobs.add_erasure(connection, row, models, "retract")
        self.others.ask(connection, row.id)

    def _commit(self, work: Callable[[Connection], None]) -> None:
        self.store.submit(work).result()


def end_without_model(connection: Connection, model: ErasureModelRow) -> None:
    """End the erasure of a model that is not configured any more."""
    jobs.set_counts(connection, model.erasure, model.model, {"not_configured": True})
    jobs.save_step(connection, model.erasure, model.model, DONE)
