"""Erase a user from the state folder of a stopped service: the steps of the service, and the learning, in one process."""

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from online.errors import SetupError
from online.installed import ContributedParts
from online.learning.building import create_learner
from online.learning.placing import configure_device
from online.serving.erasure.progress import ErasableModel
from online.serving.erasure.work import ErasureWork
from online.state.workspace import Workspace

AT_WORK = "a service or a learner is at work on it; use DELETE /v1/users/{user} of the service, or stop it first"


@contextmanager
def lock_state(workspace: Workspace) -> Iterator[None]:
    """Keep learners and services away from the state folder. Raises SetupError where one is at work."""

    refusal = SetupError(f"the state folder {workspace.settings.state} is in use: {AT_WORK}")
    try:
        learner = workspace.lock_learner(wait=False)
    except SetupError:
        raise refusal from None
    with learner:
        service = workspace.lock_service()  # held by a service, also by one without a learner
        if service is None:
            raise refusal
        with service:
            yield


def erase_now(workspace: Workspace, user: str) -> dict[str, object]:
    """Erase a user, and end what was interrupted before; return the statement."""

    settings = workspace.settings
    models = {
        spec.name: ErasableModel(
            spec, workspace.snapshots(spec.name), copy_in_redis(workspace, spec.name), lambda: None
        )
        for spec in settings.models
    }
    work = ErasureWork(workspace, models, ContributedParts())
    id = secrets.token_hex(16)
    work.begin(id, user, list(models))
    while unfinished := work.list_unfinished():
        moved = [work.advance(each) for each in unfinished]
        if not any(moved):
            learn_everything(workspace)
    return dict(json.loads(work.load(id)[0].statement or "{}"))


class CopyToClear:
    """The copy of a log in Redis, which a service writes again at its next start."""

    def __init__(self, clear: Callable[[], None]) -> None:
        self._clear, self.rebuilds = clear, 0

    def request_rebuild(self) -> None:
        """Clear the copy, so that the service fills it again from the store."""
        self._clear()
        self.rebuilds += 1


def copy_in_redis(workspace: Workspace, model: str) -> CopyToClear | None:
    """Return the copy of a log in Redis; None if the stream is the store itself."""
    copy = workspace.redis_stream(model, "")
    return None if copy is None else CopyToClear(copy.clear_all)


def learn_everything(workspace: Workspace) -> None:
    """Learn every model's log to its end, as a learner does. Raises SetupError for a model that is frozen."""

    for model in workspace.settings.models:
        if workspace.snapshots(model.name).control.frozen() is not None:
            raise SetupError(
                f"{model.name} is frozen, so what the user taught it cannot be un-learned now: `online thaw` it, and "
                "start the service or this command again; the erasure goes on then"
            )
        options = workspace.options(model)
        with closing(workspace.sql_stream(model.name, options.get("encoder", ""))) as stream:
            learner = create_learner(workspace, model, options, stream, configure_device(workspace.settings, model))
            learner.start()
            while learner.training.learned_until < stream.head() or learner.relearning is not None:
                learner.step()
            learner.save()
