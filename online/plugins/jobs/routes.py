"""Batch prediction jobs: start one, follow it, cancel it. All routes need the scope operate."""

import asyncio

from fastapi import Request, Response

from online.api.bodies import read_body_as
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.replica_requests import gather, or_elsewhere
from online.api.responses import json_response
from online.api.routes import Router
from online.plugins.jobs.batch_queue import BatchQueue
from online.plugins.jobs.schemas import BatchPredictRequest, JobsAnswer, JobStatus

router = Router()


@router.post(
    "/v1/models/{model}:batchPredict",
    "operate",
    status_code=202,
    response_model=JobStatus,
    body=BatchPredictRequest,
)
async def start_job(request: Request, model: ModelDep, runtime: RuntimeDep) -> Response:
    """Predict for a whole file, while no interactive request waits. The same request again resumes a job that failed."""
    parsed = await read_body_as(request, BatchPredictRequest, runtime.settings)
    job = await runtime.parts.find(BatchQueue).submit(model.spec.name, parsed)
    headers = {"Location": f"/v1/models/{model.spec.name}/jobs/{job.id}"}
    return json_response(job.model_dump(), 202, headers)


@router.get("/v1/models/{model}/jobs", "operate", response_model=JobsAnswer)
async def list_jobs(request: Request, model: ModelDep, runtime: RuntimeDep) -> Response:
    """The waiting, running and ended jobs of a model, newest first; those of every replica."""
    jobs = await asyncio.to_thread(runtime.parts.find(BatchQueue).list_jobs, model.spec.name)
    found = [*(each.model_dump() for each in jobs), *await gather(request, "jobs")]
    return json_response({"jobs": sorted(found, key=lambda each: str(each["created_at"]), reverse=True)})


@router.get("/v1/models/{model}/jobs/{id}", "operate", response_model=JobStatus)
async def get_job(request: Request, model: ModelDep, id: str, runtime: RuntimeDep) -> Response:
    """The progress of a job, or its result."""

    async def load() -> Response:
        job = await asyncio.to_thread(runtime.parts.find(BatchQueue).load, model.spec.name, id)
        return json_response(job.model_dump())

    return await or_elsewhere(request, load())


@router.post("/v1/models/{model}/jobs/{id}:cancel", "operate", response_model=JobStatus)
async def cancel_job(request: Request, model: ModelDep, id: str, runtime: RuntimeDep) -> Response:
    """Cancel a job and remove what it has written."""

    async def cancel() -> Response:
        return json_response((await runtime.parts.find(BatchQueue).cancel(model.spec.name, id)).model_dump())

    return await or_elsewhere(request, cancel())
