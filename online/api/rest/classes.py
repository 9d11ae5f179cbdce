"""The classes of a classifier: list, retire and restore them.

A class is what a classifier predicts. The wire calls it `label` where feedback and predictions do.
The routes under /labels are the former names of those under /classes, and answer with the same.
"""

from fastapi import APIRouter, Request, Response

from online.api.audit import name_offset, record_action
from online.api.dependencies import ModelDep
from online.api.responses import ERROR_RESPONSES, json_response, live_headers
from online.errors import BadInput
from online.models import spec_of
from online.schemas.classes import ClassesAnswer
from online.schemas.feedback import Receipt
from online.serving.model_runtime import ModelRuntime
from online.store.classes import load_classes, record_class_change

router = APIRouter(responses=ERROR_RESPONSES)


@router.get("/v1/models/{model}/classes", response_model=ClassesAnswer)
@router.get("/v1/models/{model}/labels", response_model=ClassesAnswer, deprecated=True)
async def list_classes(model: ModelDep) -> Response:
    """Every class that feedback has named, including retired ones, in the order in which they appeared."""
    check_has_classes(model)
    rows = await model.read(lambda connection: load_classes(connection, model.spec.name))
    classes = [{"label": row.id, "active": row.active, "offset": row.offset} for row in rows]
    return json_response({"classes": classes, "labels": classes}, headers=live_headers(model))


@router.delete("/v1/models/{model}/classes/{name:path}", status_code=202, response_model=Receipt)
@router.delete("/v1/models/{model}/labels/{name:path}", status_code=202, response_model=Receipt, deprecated=True)
async def retire_class(request: Request, model: ModelDep, name: str) -> Response:
    """Stop predicting a class. What was and will be learned about it is kept until it is restored."""
    return await change_class(request, model, name, active=False)


@router.put("/v1/models/{model}/classes/{name:path}", status_code=202, response_model=Receipt)
@router.put("/v1/models/{model}/labels/{name:path}", status_code=202, response_model=Receipt, deprecated=True)
async def restore_class(request: Request, model: ModelDep, name: str) -> Response:
    """Predict a retired class again, as if it had never been retired."""
    return await change_class(request, model, name, active=True)


async def change_class(request: Request, model: ModelRuntime, name: str, active: bool) -> Response:
    check_has_classes(model)
    id = model.new_id()
    offset = await model.commit(lambda connection: record_class_change(connection, model.spec.name, name, active, id))
    await record_action(request, "restore_class" if active else "retire_class", model.spec.name, name_offset(offset))
    return json_response({"id": name, "offset": offset, "status": "accepted"}, 202, live_headers(model))


def check_has_classes(model: ModelRuntime) -> None:
    kind = spec_of(model.spec.kind)
    if not kind.has_retirable_classes:
        has = "replies instead of classes" if kind.has_repertoire else "no classes to retire"
        raise BadInput(f"{model.spec.name} is a {model.spec.kind}: it has {has}")
