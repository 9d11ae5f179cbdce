"""Bookmarks of answers, over HTTP."""

from functools import partial

from fastapi import Request, Response
from pydantic import BaseModel

from bookmarks.settings import BookmarkSettings
from bookmarks.tables import add_bookmark, load_bookmarks
from online.api.auth.scopes import CallerDep
from online.api.bodies import read_body_as
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response
from online.api.routes import Router

router = Router(compressed=False)
NOBODY = "anonymous"


class NewBookmark(BaseModel):
    prediction_id: str


class Bookmarks(BaseModel):
    bookmarks: list[str]


@router.post("/v1/models/{model}/bookmarks", "predict", status_code=201, response_model=Bookmarks, body=NewBookmark)
async def bookmark(request: Request, model: ModelDep, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Bookmark an answer."""
    asked = await read_body_as(request, NewBookmark, runtime.settings)
    name, user = model.spec.name, caller.user or NOBODY
    await model.commit(lambda connection: add_bookmark(connection, name, user, asked.prediction_id))
    return json_response({"bookmarks": [asked.prediction_id]}, 201)


@router.get("/v1/models/{model}/bookmarks", "predict", response_model=Bookmarks)
async def list_bookmarks(model: ModelDep, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """List the answers that the caller has bookmarked."""
    most = runtime.settings.part(BookmarkSettings).max_bookmarks
    mine = partial(load_bookmarks, model=model.spec.name, user=caller.user or NOBODY, most=most)
    return json_response({"bookmarks": await model.read(mine)})
