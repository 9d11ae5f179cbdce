"""The classes of a classifier: list, retire and restore them, list what a user taught, and forget it.

A class is what a classifier predicts. The wire calls it `label` where feedback and predictions do.
The routes under /labels are the former names of those under /classes, and answer with the same.

Examples are those of the user on whose behalf the caller acts, whom the header X-User names where the caller may act for any
user. To take back one of them, retract its feedback.
"""

from typing import Annotated, Literal

from fastapi import Depends, Header, Query, Request, Response

from online.api.audit import name_offset, record_action
from online.api.auth.scopes import CallerDep
from online.api.dependencies import ModelDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.errors import BadInput, Forbidden
from online.models import spec_of
from online.schemas.classes import ClassesAnswer, ExamplesAnswer, ForgottenClass
from online.schemas.feedback import Receipt
from online.schemas.fields import Name
from online.serving.feedback.examples import forget_class, load_examples
from online.serving.model_runtime import ModelRuntime
from online.store.classes import load_classes, record_class_change

MAX_OF_EACH = 200

router = Router()
Limit = Annotated[int, Query(ge=1, le=MAX_OF_EACH, description="Most examples of each class; at most 1,000 in all.")]
Whose = Annotated[
    Literal["user", "everyone"],
    Query(description="everyone: the examples of all users, for callers with the scope `curate`."),
]
ClassName = Annotated[str, Query(min_length=1, description="The class to take back.")]
UserHeader = Annotated[
    Name | None,
    Header(alias="X-User", description="The user whose examples are meant, for callers that may act for any user."),
]


async def get_user(caller: CallerDep, named: UserHeader = None) -> str | None:
    """Return the user whose examples are meant; None where none is named."""
    return caller.acts_for(named)


UserDep = Annotated[str | None, Depends(get_user)]


def require_user(user: str | None) -> str:
    """Return the user of a request. Raises BadInput where none is named."""
    if user is None:
        raise BadInput("header.X-User: name the user whose examples are meant")
    return user


@router.get("/v1/models/{model}/classes", "predict", response_model=ClassesAnswer)
@router.get("/v1/models/{model}/labels", "predict", response_model=ClassesAnswer, deprecated=True)
async def list_classes(model: ModelDep) -> Response:
    """Every class that feedback has named, including those that are retired or were refused, in the order in which they appeared."""
    check_has_classes(model)
    recipe = model.live.encoder_config.recipe
    rows = await model.read(lambda connection: load_classes(connection, model.spec.name, recipe))
    classes = [{"label": row.id, "active": row.active, "offset": row.offset, "refusal": row.refusal} for row in rows]
    return json_response({"classes": classes, "labels": classes}, headers=live_headers(model))


@router.delete("/v1/models/{model}/classes/{name:path}", "curate", status_code=202, response_model=Receipt)
@router.delete(
    "/v1/models/{model}/labels/{name:path}", "curate", status_code=202, response_model=Receipt, deprecated=True
)
async def retire_class(request: Request, model: ModelDep, name: str) -> Response:
    """Stop predicting a class. What was and will be learned about it is kept until it is restored."""
    return await change_class(request, model, name, active=False)


@router.put("/v1/models/{model}/classes/{name:path}", "curate", status_code=202, response_model=Receipt)
@router.put("/v1/models/{model}/labels/{name:path}", "curate", status_code=202, response_model=Receipt, deprecated=True)
async def restore_class(request: Request, model: ModelDep, name: str) -> Response:
    """Predict a retired class again, as if it had never been retired."""
    return await change_class(request, model, name, active=True)


async def change_class(request: Request, model: ModelRuntime, name: str, active: bool) -> Response:
    """Record that a class is retired or restored, and answer with the event's offset."""
    check_has_classes(model)
    id = model.new_id()
    offset = await model.commit(lambda connection: record_class_change(connection, model.spec.name, name, active, id))
    await record_action(request, "restore_class" if active else "retire_class", model.spec.name, name_offset(offset))
    return json_response({"id": name, "offset": offset, "status": "accepted"}, 202, live_headers(model))


def check_has_classes(model: ModelRuntime) -> None:
    """Raise BadInput for a model without classes that can be retired."""
    kind = spec_of(model.spec.kind)
    if not kind.has_retirable_classes:
        has = "replies instead of classes" if kind.has_repertoire else "no classes to retire"
        raise BadInput(f"{model.spec.name} is a {model.spec.kind}: it has {has}")


# what a user taught


@router.get("/v1/models/{model}/examples", "predict", response_model=ExamplesAnswer)
async def list_examples(
    model: ModelDep, caller: CallerDep, user: UserDep, limit: Limit = 24, of: Whose = "user"
) -> Response:
    """The newest examples of each class that a user taught, and that count now, are held, or were rejected by a curator."""
    check_has_classes(model)
    if of == "everyone" and not caller.may("curate"):
        raise Forbidden(f"of=everyone: the caller {caller.id!r} lacks the scope 'curate'; leave it out for your own")
    whose = None if of == "everyone" else require_user(user)
    answer = await model.read(lambda connection: load_examples(connection, model.spec.name, whose, limit))
    return json_response(answer.model_dump(), headers=live_headers(model))


@router.delete("/v1/models/{model}/examples", "feedback", status_code=202, response_model=ForgottenClass)
async def forget_examples(
    request: Request, model: ModelDep, caller: CallerDep, user: UserDep, label: ClassName
) -> Response:
    """Take back every example of a class that a user taught. It is un-learned exactly; what others taught stays."""
    check_has_classes(model)
    forgotten = await forget_class(model.feedback, label, require_user(user), caller.id)
    if forgotten.count:
        offset = name_offset(forgotten.offset or None)
        await record_action(request, "forget_class", model.spec.name, offset, count=forgotten.count)
    return json_response(forgotten.model_dump(), 202, live_headers(model))
