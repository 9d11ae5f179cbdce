"""The route that compares a shadow version."""

from dataclasses import asdict

from fastapi import Response
from pydantic import Field

from online.api.dependencies import ModelDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.plugins.shadow.tables import Comparison, compare_with_live
from online.schemas.fields import Wire
from online.snapshots.labels import SHADOW

router = Router()


class ShadowAnswer(Wire):
    """The version with the label `shadow`, compared with what was answered."""

    version: str | None = Field(description="Null: no version has the label.")
    answered: int
    judged: int = Field(description="Those with feedback that says what was right.")
    shadow_right: int
    live_right: int


@router.get("/v1/models/{model}/shadow", "operate", response_model=ShadowAnswer)
async def compare_shadow(model: ModelDep) -> Response:
    """How often the version with the label `shadow` would have been right, compared with what was answered."""
    target = model.live.labels.get(SHADOW)
    if target is None:
        return json_response({"version": None, **asdict(Comparison(0, 0, 0, 0))}, headers=live_headers(model))
    name, version = model.spec.name, target.version
    comparison = await model.read(lambda connection: compare_with_live(connection, name, version))
    return json_response({"version": str(version), **asdict(comparison)}, headers=live_headers(model))
