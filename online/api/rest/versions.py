"""Versions of a model: list, label and roll them back, freeze learning, and end a quarantine.

Every change is an event of the log, and then a rename in the folder of the snapshots (online/state/version_control.py). All
servers of the model follow it, on every replica, this one before it answers.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from fastapi import Query, Request, Response
from sqlalchemy import Connection

from online.api.audit import follow, name_offset, record_action
from online.api.bodies import read_body_as
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response, live_headers, version_headers
from online.api.routes import Router
from online.errors import Conflict
from online.schemas.fields import Cause
from online.schemas.versions import (
    EndQuarantine,
    FreezeRequest,
    FreezeState,
    LabelRequest,
    QuarantineDetails,
    QuarantinesAnswer,
    RollbackAnswer,
    RollbackRequest,
    VersionLabel,
    VersionsAnswer,
)
from online.serving.feedback import quarantine_ending
from online.serving.live import LiveModel
from online.serving.model_runtime import ModelRuntime
from online.snapshots.labels import LabelTarget
from online.snapshots.manifest import describe_version
from online.snapshots.roll_back import Freeze
from online.store import now, quarantine
from online.store.drift_alarms import DriftAlarmRow, load_loss_alarms
from online.store.feedback import load_first_time
from online.store.refusals import RejectedSnapshotRow, load_rejections

router = Router()

MAX_LISTED = 100  # rejected snapshots and quarantines
MAX_VERSIONS = 1_000  # in one answer


@router.get("/v1/models/{model}/versions", "predict", response_model=VersionsAnswer)
async def list_versions(
    model: ModelDep,
    limit: Annotated[int, Query(ge=1, le=MAX_VERSIONS, description="The largest number of versions.")] = MAX_VERSIONS,
    before: Annotated[int | None, Query(ge=1, description="Only versions with a smaller number.")] = None,
) -> Response:
    """The retained versions, newest first, with their labels and states.

    Where there are more, `next_before` is the value of `before` that gives the next page. The live version is in
    `live_version`, whichever page is asked for.
    """
    page = await model.read(lambda connection: model.transactions.versions.list_page(connection, limit, before))
    live, names = model.live.current.version, await asyncio.to_thread(model.snapshots.labels.names)
    versions = [
        describe_version(each, each.version == live, names.get(each.version, ()), model.live.state_of(each.version))
        for each in page.manifests
    ]
    rows = await model.read(lambda connection: load_rejections(connection, model.spec.name, MAX_LISTED))
    content = {
        "versions": versions,
        "version_count": page.count,
        "next_before": page.before,
        "live_version": str(live),
        "refused": [describe_rejection(row) for row in rows],
    }
    return json_response({**content, **describe_live(model.live)}, headers=live_headers(model))


def describe_rejection(row: RejectedSnapshotRow) -> dict[str, object]:
    """Return a rejected snapshot as the API shows it."""
    return {"learned_until": row.since, **row.model_dump(exclude={"model", "since"})}


def describe_live(live: LiveModel) -> dict[str, object]:
    """Return the version labels that are set, and whether learning is frozen."""
    freeze = live.frozen
    labels = [{"label": name, "version": str(v.version), "percent": v.percent} for name, v in live.labels.items()]
    return {"labels": labels, "frozen": asdict(freeze) if freeze else None}


@router.post("/v1/models/{model}:rollback", "operate", response_model=RollbackAnswer, body=RollbackRequest)
async def roll_back(request: Request, model: ModelDep, runtime: RuntimeDep) -> Response:
    """Make an older version live; by default the previous one. The next version that is learned becomes live again.

    With `freeze`, the model also stops to learn, in one act, so that the version stays live until the model is thawed.
    """
    parsed = await read_body_as(request, RollbackRequest, runtime.settings)
    version = await asyncio.to_thread(model.snapshots.labels.resolve, str(parsed.version))
    frozen = Freeze(now(), parsed.reason) if parsed.freeze else None
    manifest = await asyncio.to_thread(
        model.transactions.versions.roll_back, version, model.live.encoder_config.recipe, frozen
    )
    await follow(refresh(model), "the version is swapped in")
    await record_action(request, "roll_back", model.spec.name, f"version {version}", freeze=parsed.freeze)
    content = {"version": str(manifest.version), "learned_until": manifest.learned_until}
    return json_response(content, headers=version_headers(manifest.version, manifest.learned_until))


@router.put("/v1/models/{model}/version_labels/{label}", "operate", response_model=VersionLabel, body=LabelRequest)
async def set_label(request: Request, model: ModelDep, label: str, runtime: RuntimeDep) -> Response:
    """Give a version a label, or move the label to it. The version is verified, and kept while it has a label.

    The label `canary` gets a share of the traffic, always of the same callers. The label `shadow` gets a copy of all traffic;
    its answers are compared and not sent.
    """
    parsed = await read_body_as(request, LabelRequest, runtime.settings)
    target = LabelTarget(await asyncio.to_thread(model.snapshots.labels.resolve, str(parsed.version)), parsed.percent)
    await asyncio.to_thread(model.transactions.versions.set_label, label, target)
    await follow(model.live.refresh_others(), "the labels are read")
    details = {"label": label, "percent": target.percent}
    await record_action(request, "label_version", model.spec.name, f"version {target.version}", **details)
    return json_response({"label": label, "version": str(target.version), "percent": target.percent})


@router.delete("/v1/models/{model}/version_labels/{label}", "operate", status_code=204)
async def delete_label(request: Request, model: ModelDep, label: str) -> Response:
    """Delete a version label. The version stays as long as retention keeps it."""
    await asyncio.to_thread(model.transactions.versions.delete_label, label)
    await follow(model.live.refresh_others(), "the labels are read")
    await record_action(request, "delete_version_label", model.spec.name, label=label)
    return Response(status_code=204)


@router.post("/v1/models/{model}:freeze", "operate", response_model=FreezeState, body=FreezeRequest)
async def freeze(request: Request, model: ModelDep, runtime: RuntimeDep) -> Response:
    """Stop learning until the model is thawed. Feedback is still accepted, and waits in the log."""
    parsed = await read_body_as(request, FreezeRequest, runtime.settings)
    frozen = Freeze(now(), parsed.reason)
    await asyncio.to_thread(model.transactions.versions.freeze, frozen)
    await follow(model.live.refresh_others(), "the labels are read")
    await record_action(request, "freeze", model.spec.name)
    return json_response(asdict(frozen))


@router.post("/v1/models/{model}:thaw", "operate", status_code=204)
async def thaw(request: Request, model: ModelDep) -> Response:
    """Learn what waited in the log, and resume learning. A quarantine must be ended first."""
    open_quarantine = await model.read(lambda connection: quarantine.load_open(connection, model.spec.name))
    if open_quarantine is not None:
        raise Conflict(
            f"the rollback guard froze {model.spec.name}: end its quarantine first, with the outcome learned or dropped"
        )
    await asyncio.to_thread(model.transactions.versions.thaw, model.live.encoder_config.recipe)
    await follow(refresh(model), "the version is swapped in")
    await record_action(request, "thaw", model.spec.name)
    return Response(status_code=204)


@router.get("/v1/models/{model}/quarantine", "operate", response_model=QuarantinesAnswer)
async def list_quarantines(model: ModelDep) -> Response:
    """The quarantines that the rollback guard started, newest first, and how they ended."""
    name = model.spec.name
    rows = await model.read(lambda connection: quarantine.load_quarantines(connection, name, MAX_LISTED))
    described = await describe_quarantines(model, rows)
    return json_response({"quarantines": described}, headers=live_headers(model))


@router.post("/v1/models/{model}/quarantine:end", "operate", response_model=QuarantineDetails, body=EndQuarantine)
async def end_quarantine(request: Request, model: ModelDep, runtime: RuntimeDep) -> Response:
    """End the quarantine: its feedback is learned after all, or dropped and un-learned exactly. Learning resumes."""
    parsed = await read_body_as(request, EndQuarantine, runtime.settings)
    row, change, recorded = await quarantine_ending.end_quarantine(model.transactions, parsed.outcome)
    await asyncio.to_thread(model.transactions.versions.finish, recorded, change, model.live.encoder_config.recipe)
    await follow(refresh(model), "the version is swapped in")
    await record_action(
        request, "end_quarantine", model.spec.name, name_offset(row.since), outcome=parsed.outcome, until=row.until
    )
    (described,) = await describe_quarantines(model, [row])
    return json_response(described)


async def refresh(model: ModelRuntime) -> None:
    """Follow a change of the snapshots before the request is answered."""
    await model.live.refresh()
    await follow(model.live.refresh_others(), "the labels are read")


async def describe_quarantines(
    model: ModelRuntime, rows: Sequence[quarantine.QuarantineRow]
) -> list[dict[str, object]]:
    """Return quarantines, each with the instant of the first feedback in it, and the figures of the alarm that began it.

    Both are left out where the events, or the alarm, are no longer kept.
    """

    def load(connection: Connection) -> list[dict[str, object]]:
        alarms = load_loss_alarms(connection, model.spec.name, [row.offset for row in rows])
        return [describe_quarantine(connection, row, alarms.get(row.offset)) for row in rows]

    described: list[dict[str, object]] = await model.read(load)
    return described


def describe_quarantine(
    connection: Connection, row: quarantine.QuarantineRow, alarm: DriftAlarmRow | None
) -> dict[str, object]:
    """Return a quarantine as the API shows it, with its cause."""
    since_at = load_first_time(connection, row.model, row.since - 1)
    cause = explain_quarantine(row, alarm).model_dump()
    return {**row.model_dump(exclude={"model"}), "since_at": since_at, "cause": cause}


def explain_quarantine(row: quarantine.QuarantineRow, alarm: DriftAlarmRow | None) -> Cause:
    """Return the cause of a quarantine with the figures of the alarm that began it."""
    figures: dict[str, float | int | str] = {"since": row.since}
    if alarm is not None:
        figures |= {"before": alarm.before, "after": alarm.after, "window": alarm.window}
    return Cause(code="loss_rose", figures=figures)
