"""HTTP: the versions of a model, their labels, rolling back, freezing and thawing, what the guard set apart.

What changes here is what answers, or whether anything is learned. Every change is a rename in the snapshots' folder, so that
each server of this model follows it, this one before it answers. Only dropping a quarantine writes to the log: retractions.
"""

import asyncio
from dataclasses import asdict

from fastapi import APIRouter, Request, Response

from online import quarantine, store
from online.candidates import CandidateRow, refused_candidates
from online.errors import Conflict
from online.schemas import (
    EndQuarantine,
    FreezeRequest,
    FrozenShown,
    LabelRequest,
    QuarantinesAnswer,
    QuarantineShown,
    RollbackAnswer,
    RollbackRequest,
    ShadowAnswer,
    VersionLabel,
    VersionsAnswer,
)
from online.serving.api import ERRORS, ModelHere, PartsHere, answer, body_of, live_stamp, stamp
from online.serving.bodies import body_as
from online.serving.keys import Admin
from online.serving.live import LiveModel
from online.serving.parts import ModelParts
from online.shadow import Comparison
from online.snapshots import SHADOW, Frozen, Labelled, as_shown

router = APIRouter(responses=ERRORS)

SHOWN = 100


@router.get("/v1/models/{model}/versions", response_model=VersionsAnswer)
async def versions(model: ModelHere) -> Response:
    """The versions that are kept, newest first; which can be asked for, and by which names."""
    manifests = await asyncio.to_thread(model.snapshots.manifests)
    live, named = model.live.current.version, await asyncio.to_thread(model.snapshots.names)
    listed = [
        as_shown(each, each.version == live, named.get(each.version, ()), model.live.state_of(each.version))
        for each in manifests
    ]
    name = model.spec.name
    refused = await model.predictor.read(lambda connection: refused_candidates(connection, name, SHOWN))
    told = {"versions": listed, "refused": [shown_candidate(row) for row in refused]}
    return answer({**told, **labels_and_frozen(model.live)}, headers=live_stamp(model))


def shown_candidate(row: CandidateRow) -> dict[str, object]:
    return {"learned_until": row.since, **row.model_dump(exclude={"model", "since"})}


def labels_and_frozen(live: LiveModel) -> dict[str, object]:
    frozen = live.frozen
    labels = [{"label": name, "version": str(v.version), "percent": v.percent} for name, v in live.labels.items()]
    return {"labels": labels, "frozen": {"since": frozen.since, "reason": frozen.reason} if frozen else None}


@router.post("/v1/models/{model}:rollback", response_model=RollbackAnswer, openapi_extra=body_of(RollbackRequest))
async def rollback(request: Request, model: ModelHere, parts: PartsHere, _: Admin) -> Response:
    """Make an older version live: the one before, if none is named. What is learned from now on goes live again."""
    wanted = await body_as(request, RollbackRequest, parts.settings)
    version = await asyncio.to_thread(model.snapshots.number_of, str(wanted.version))
    manifest = await asyncio.to_thread(model.snapshots.roll_back, version, model.live.made.recipe)
    await model.live.refresh()
    content = {"version": str(manifest.version), "learned_until": manifest.learned_until}
    return answer(content, headers=stamp(manifest.version, manifest.learned_until))


@router.put(
    "/v1/models/{model}/version_labels/{label}", response_model=VersionLabel, openapi_extra=body_of(LabelRequest)
)
async def set_label(request: Request, model: ModelHere, label: str, parts: PartsHere, _: Admin) -> Response:
    """Give a version a name, or move the name to it: it is verified, and kept as long as it has one.

    `canary` also has a share of the traffic, the same callers every time; `shadow` is asked everything, and never answers.
    """
    wanted = await body_as(request, LabelRequest, parts.settings)
    labelled = Labelled(await asyncio.to_thread(model.snapshots.number_of, str(wanted.version)), wanted.percent)
    await asyncio.to_thread(model.snapshots.set_label, label, labelled)
    await model.live.refresh_others()
    return answer({"label": label, "version": str(labelled.version), "percent": labelled.percent})


@router.delete("/v1/models/{model}/version_labels/{label}", status_code=204)
async def drop_label(model: ModelHere, label: str, _: Admin) -> Response:
    """Take the name away; the version stays for as long as retention keeps it."""
    await asyncio.to_thread(model.snapshots.drop_label, label)
    await model.live.refresh_others()
    return Response(status_code=204)


@router.get("/v1/models/{model}/shadow", response_model=ShadowAnswer)
async def shadow(model: ModelHere) -> Response:
    """How often the version with the label `shadow` would have been right, beside what was answered."""
    labelled = model.live.labels.get(SHADOW)
    if labelled is None:
        return answer({"version": None, **asdict(Comparison(0, 0, 0, 0))}, headers=live_stamp(model))
    name, version = model.spec.name, labelled.version
    told = await model.predictor.read(lambda connection: store.compared(connection, name, version))
    return answer({"version": str(version), **asdict(told)}, headers=live_stamp(model))


@router.post("/v1/models/{model}:freeze", response_model=FrozenShown, openapi_extra=body_of(FreezeRequest))
async def freeze(request: Request, model: ModelHere, parts: PartsHere, _: Admin) -> Response:
    """Learn nothing more until it is thawed. Feedback is taken meanwhile, and waits in the log."""
    wanted = await body_as(request, FreezeRequest, parts.settings)
    frozen = Frozen(store.now(), wanted.reason)
    await asyncio.to_thread(model.snapshots.freeze, frozen)
    await model.live.refresh_others()
    return answer({"since": frozen.since, "reason": frozen.reason})


@router.post("/v1/models/{model}:thaw", status_code=204)
async def thaw(model: ModelHere, _: Admin) -> Response:
    """Learn what waited, and go on. Where the guard froze it, say first what the quarantine is worth."""
    quarantined = await model.predictor.read(lambda connection: quarantine.open_of(connection, model.spec.name))
    if quarantined is not None:
        raise Conflict(f"the guard froze {model.spec.name}: say whether its quarantine is learned or dropped")
    await asyncio.to_thread(model.snapshots.thaw, model.live.made.recipe)
    await followed(model)
    return Response(status_code=204)


@router.get("/v1/models/{model}/quarantine", response_model=QuarantinesAnswer)
async def quarantines(model: ModelHere) -> Response:
    """What the guard did, newest first: since when, why, and what somebody said of it."""
    name = model.spec.name
    rows = await model.predictor.read(lambda connection: quarantine.quarantines_of(connection, name, SHOWN))
    return answer({"quarantines": [shown(row) for row in rows]}, headers=live_stamp(model))


@router.post("/v1/models/{model}/quarantine:end", response_model=QuarantineShown, openapi_extra=body_of(EndQuarantine))
async def end_quarantine(request: Request, model: ModelHere, parts: PartsHere, _: Admin) -> Response:
    """Say what was set apart is worth: learned after all, or dropped, which un-learns it exactly. Learning goes on."""
    wanted = await body_as(request, EndQuarantine, parts.settings)
    row = await model.predictor.end_quarantine(wanted.outcome)
    await asyncio.to_thread(model.snapshots.thaw, model.live.made.recipe, wanted.outcome == "dropped")
    await followed(model)
    return answer(shown(row))


async def followed(model: ModelParts) -> None:
    await model.live.refresh()
    await model.live.refresh_others()


def shown(row: quarantine.QuarantineRow) -> dict[str, object]:
    return row.model_dump(exclude={"model"})
