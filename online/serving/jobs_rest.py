"""HTTP: batch prediction jobs: ask for one, look at it, cancel it. For whoever may change what is served."""

import asyncio

from fastapi import APIRouter, Request, Response

from online.schemas import BatchPredictRequest, JobsAnswer, JobShown
from online.serving.api import ERRORS, ModelHere, PartsHere, answer, body_of
from online.serving.bodies import body_as
from online.serving.keys import Admin

router = APIRouter(responses=ERRORS)


@router.post(
    "/v1/models/{model}:batchPredict",
    status_code=202,
    response_model=JobShown,
    openapi_extra=body_of(BatchPredictRequest),
)
async def batch_predict(request: Request, model: ModelHere, parts: PartsHere, _: Admin) -> Response:
    """Answer a whole file, when nobody else asks. The same request again goes on where one failed, or was cut short."""
    asked = await body_as(request, BatchPredictRequest, parts.settings)
    job = await parts.jobs.take(model.spec.name, asked)
    headers = {"Location": f"/v1/models/{model.spec.name}/jobs/{job.id}"}
    return answer(job.model_dump(), 202, headers)


@router.get("/v1/models/{model}/jobs", response_model=JobsAnswer)
async def jobs(model: ModelHere, parts: PartsHere, _: Admin) -> Response:
    """Those that wait, run or ended, the newest first."""
    shown = await asyncio.to_thread(parts.jobs.shown, model.spec.name)
    return answer({"jobs": [each.model_dump() for each in shown]})


@router.get("/v1/models/{model}/jobs/{id}", response_model=JobShown)
async def job(model: ModelHere, id: str, parts: PartsHere, _: Admin) -> Response:
    """How far it is, or what became of it."""
    return answer((await asyncio.to_thread(parts.jobs.one, model.spec.name, id)).model_dump())


@router.post("/v1/models/{model}/jobs/{id}:cancel", response_model=JobShown)
async def cancel(model: ModelHere, id: str, parts: PartsHere, _: Admin) -> Response:
    """End it; what it had written is removed."""
    return answer((await parts.jobs.cancel(model.spec.name, id)).model_dump())
