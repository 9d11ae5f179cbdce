"""The steps of an erasure that concern snapshots: wait for those without the user, and delete all others.

    unlearn     a durable version has learned the retractions
    relearn     a durable version is what a run without the user gives
    snapshots   every version before that one is deleted, with its labels, and the files that plugins made of it
    set_aside   every version that was learned from another log is deleted: what that log held is not known

Only versions of the present log count. Those of another one are set aside by the learner, and until it has done so the
last step waits.
"""

import time
from collections.abc import Sequence
from functools import partial

from online.installed import collect
from online.schemas.json_values import JSONObject
from online.serving.erasure.progress import DONE, ModelErasure
from online.serving.erasure.statement import describe_relearning, describe_state
from online.snapshots.manifest import Manifest
from online.state.version_control import VersionControl
from online.store.erasure import log, relearnings
from online.store.erasure.replicas import FILES
from online.store.events import list_foreign

UNLEARN_WAIT_S = 60.0  # for the learner to take the retractions; later they are void, and `relearn` covers them too


def wait_until_unlearned(erasure: ModelErasure) -> bool:
    """Wait for a durable version without the user; return whether there is one."""
    others = erasure.context.others
    if others.list_behind(erasure.row.id, FILES):
        return False
    if others.were_late(erasure.key):  # what they had in their journals is in the store since then
        erasure.save("retract")
        return True
    last, began = erasure.last_retraction, erasure.context.waiting_since
    durable = find_durable(erasure, last) if last else None
    waited_s = time.monotonic() - began.setdefault(erasure.key, time.monotonic())
    is_frozen = erasure.snapshots.control.frozen() is not None
    if last and durable is None and not is_frozen and waited_s < UNLEARN_WAIT_S:
        return False
    erasure.save("void", **({} if durable is None else {"unlearned": describe_state(durable)}))
    return True


def relearn(erasure: ModelErasure) -> bool:
    """Have the model learned again from the log; return whether that is done."""
    asked_at = erasure.counts.get("relearn_offset")
    if asked_at is None:
        offset = erasure.commit(lambda connection: log.ask_to_relearn(connection, erasure.name, erasure.row.id))
        erasure.save("relearn", relearn_offset=offset)
        return True
    durable = find_durable(erasure, asked_at)
    if durable is None:
        return False
    found = erasure.read(lambda connection: relearnings.find_relearning(connection, erasure.name, asked_at))
    proof: JSONObject = {} if found is None else {"compared": describe_relearning(found)}
    snapshots = erasure.snapshots
    older = [version for version in snapshots.folder.versions() if version < durable.version]
    names = sorted(name for name, each in snapshots.labels.read().items() if each.version < durable.version)
    erasure.save(
        "snapshots",
        after=describe_state(durable),
        versions_removed=len(older),
        labels_removed=dict.fromkeys(names, "its version was deleted"),
        **proof,
    )
    return True


def remove_snapshots(erasure: ModelErasure) -> bool:
    """Delete snapshots from before the erasure; return whether that is done."""
    versions = VersionControl(erasure.snapshots, erasure.context.workspace.store)
    versions.forget_before(erasure.counts["after"]["version"])
    erasure.save("set_aside", **forget_files(erasure))
    return True


def remove_set_aside(erasure: ModelErasure) -> bool:
    """Also where the present log has nothing of the user: the lost one may have had."""
    if has_foreign(erasure, erasure.snapshots.folder.manifests()):
        return False
    if "set_aside_removed" not in erasure.counts:  # counted first: a process that is killed deletes the rest later
        erasure.save("set_aside", set_aside_removed=len(erasure.snapshots.aside.versions()))
        return True
    erasure.snapshots.aside.delete()
    found = forget_files(erasure) if erasure.counts["set_aside_removed"] else {}
    erasure.save(DONE, **{name: value for name, value in found.items() if name not in erasure.counts})
    return True


def forget_files(erasure: ModelErasure) -> JSONObject:
    """Let plugins delete the files that they have made of versions which are gone. Raises FileInUse."""
    context = erasure.context
    found = collect("forget_versions", context.workspace, erasure.snapshots, context.parts)
    return {name: value for each in found for name, value in each.items()}


def find_durable(erasure: ModelErasure, offset: int) -> Manifest | None:
    """Return the first durable version of the present log that has learned an offset and is on the disk."""
    manifests = erasure.snapshots.folder.manifests()
    is_on_disk = erasure.snapshots.folder.is_on_disk
    durable = [each for each in manifests if each.learned_until >= offset and each.durable and is_on_disk(each.version)]
    foreign, _ = erasure.read(partial(list_foreign, model=erasure.name, manifests=durable))
    ours = (each for each in durable if each not in foreign)
    return min(ours, key=lambda each: each.version, default=None)


def has_foreign(erasure: ModelErasure, manifests: Sequence[Manifest]) -> bool:
    """Return whether one of the manifests is of another log than the present one."""
    foreign, _ = erasure.read(partial(list_foreign, model=erasure.name, manifests=manifests))
    return bool(foreign)
