"""HTTP: the labels a model has been told, and which of them it may give: list, retire, restore."""

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from online import store
from online.errors import BadInput, NotFound
from online.models import LABELLED
from online.schemas import Event, LabelsAnswer, Receipt
from online.serving.api import ERRORS, ModelHere, answer, live_stamp
from online.serving.parts import ModelParts
from online.stream import append_events

router = APIRouter(responses=ERRORS)


@router.get("/v1/models/{model}/labels", response_model=LabelsAnswer)
async def labels(model: ModelHere) -> Response:
    """Every label that feedback named, retired ones too, in the order they came."""
    check_labelled(model)
    rows = await model.predictor.read(lambda connection: store.labels_of(connection, model.spec.name))
    shown = [{"label": row.id, "active": row.active, "offset": row.offset} for row in rows]
    return answer({"labels": shown}, headers=live_stamp(model))


@router.delete("/v1/models/{model}/labels/{label:path}", status_code=202, response_model=Receipt)
async def retire(model: ModelHere, label: str) -> Response:
    """Stop giving a label. What is learned about it, before and meanwhile, waits until it is restored."""
    return await changed(model, label, active=False)


@router.put("/v1/models/{model}/labels/{label:path}", status_code=202, response_model=Receipt)
async def restore(model: ModelHere, label: str) -> Response:
    """Give a retired label again, as if it had never been away."""
    return await changed(model, label, active=True)


async def changed(model: ModelParts, label: str, active: bool) -> Response:
    check_labelled(model)
    id = f"{model.predictor.new_id()}#{'restore' if active else 'retire'}"
    offset = await model.predictor.commit(
        lambda connection: record_change(connection, model.spec.name, label, active, id)
    )
    return answer({"id": label, "offset": offset, "status": "accepted"}, 202, live_stamp(model))


def record_change(connection: Connection, model: str, label: str, active: bool, id: str) -> int:
    """The offset from which on it holds."""
    if not store.label_is_told(connection, model, label):
        raise NotFound(f"{model} has never been told a label {label[:200]!r}")
    offset = append_events(connection, model, [Event(id, "restore" if active else "retire", label=label)])[0]
    store.set_label_active(connection, model, label, active, offset)
    return offset


def check_labelled(model: ModelParts) -> None:
    if model.spec.kind not in LABELLED:
        has = "replies, not labels" if model.spec.kind == "ranker" else "no labels to retire"
        raise BadInput(f"{model.spec.name} is a {model.spec.kind}: it has {has}")
