"""Replays of uploaded logs: upload one, follow it, read its report."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Literal

from fastapi import Query, Request, Response
from fastapi.responses import HTMLResponse
from starlette.requests import ClientDisconnect

from online.api.bodies import announced_bytes, read_chunks
from online.api.dependencies import RuntimeDep
from online.api.replica_requests import gather, or_elsewhere
from online.api.responses import json_response
from online.api.routes import Router
from online.errors import BadInput, NotFound
from online.models import KINDS
from online.plugins.reports.languages import WORDS
from online.plugins.reports.making import ReportMaking
from online.plugins.reports.replay_jobs import make_file_name
from online.plugins.reports.report_language import VARY, LanguageDep
from online.plugins.reports.report_routes import NOT_READY, name_file, page_response, waiting_response
from online.plugins.reports.schemas import ColumnsAnswer, DeletedReplay, ReplayRequest, ReplaysAnswer, ReplayStatus
from online.schemas.fields import Language, Name
from online.store import now

router = Router()

RETRY_AFTER_S = "1"
FILE_BODY = {
    "requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"format": "binary"}}}}
}

ModelKinds = Annotated[
    list[Annotated[str, Query(max_length=500)]],
    Query(
        alias="model",
        max_length=8,
        description="KIND or KIND:NAME=VALUE,... of each model to replay on. Default: the kinds that fit the log.",
    ),
]
LabelColumn = Annotated[str, Query(max_length=200, description="The column of the label, in a CSV or Parquet file.")]
Columns = list[Annotated[str, Query(max_length=200)]]
DroppedColumns = Annotated[
    Columns,
    Query(max_length=200, description="Columns of a table that are no features, or patterns such as `vic*`."),
]
FeatureColumns = Annotated[
    Columns,
    Query(alias="feature", max_length=200, description="The only columns that are features, or patterns of them."),
]
RunsBaseline = Annotated[
    bool, Query(description="Let a logistic model learn beside each model, and say where that is far ahead.")
]
MaxBadRatio = Annotated[float, Query(ge=0, le=1, description="The largest share of unusable lines that is accepted.")]
Format = Literal["", "jsonl", "csv", "parquet", "vw", "dsjson"]


@router.post("/v1/replays", "operate", status_code=202, response_model=ReplayStatus, openapi_extra=FILE_BODY)
async def upload_log(
    request: Request,
    runtime: RuntimeDep,
    name: Name,
    models: ModelKinds = [],  # noqa: B006 (FastAPI creates a new one for each request)
    label: LabelColumn = "",
    format: Format = "",
    max_bad_ratio: MaxBadRatio = 0.0,
    drop: DroppedColumns = [],  # noqa: B006
    features: FeatureColumns = [],  # noqa: B006
    baseline: RunsBaseline = True,
) -> Response:
    """Upload a log as the body and replay it. It may have any format that `online replay` reads.

    name: the file name; its endings tell the compression and the format.
    """
    check_upload(name, models, label, format)
    runtime.disk.check_room()
    announced = announced_bytes(request)
    replay = ReplayRequest(
        name=name,
        file=make_file_name(name),
        models=models,
        label=label,
        format=format,
        max_bad_ratio=max_bad_ratio,
        size_bytes=0,
        created_at=now(),
        drop=tuple(drop),
        features=tuple(features),
        baseline=baseline,
    )
    chunks = read_upload(request)
    id = await runtime.parts.find(ReportMaking).replays.submit(replay, chunks, announced)
    headers = {"Location": f"/v1/replays/{id}", "Retry-After": RETRY_AFTER_S}
    return json_response(runtime.parts.find(ReportMaking).replays.load(id).model_dump(), 202, headers)


@router.post("/v1/replays:columns", "operate", response_model=ColumnsAnswer, openapi_extra=FILE_BODY)
async def recognise_columns(
    request: Request,
    runtime: RuntimeDep,
    name: Name,
    label: LabelColumn = "",
    format: Format = "",
    drop: DroppedColumns = [],  # noqa: B006
    features: FeatureColumns = [],  # noqa: B006
) -> Response:
    """What the columns of a table are, and what a replay does with each. Nothing of the body is kept.

    The body is a file as for `POST /v1/replays`, or its first lines: at most 1,000 rows are looked at.
    """
    check_upload(name, [], label, format)
    runtime.disk.check_room()
    asked = ReplayRequest(
        name=name,
        file=make_file_name(name),
        models=[],
        label=label,
        format=format,
        max_bad_ratio=1.0,
        size_bytes=0,
        created_at=now(),
        drop=tuple(drop),
        features=tuple(features),
    )
    found = await runtime.parts.find(ReportMaking).replays.recognise_columns(
        asked, read_upload(request), announced_bytes(request)
    )
    return json_response(found)


def check_upload(name: str, models: list[str], label: str, format: str) -> None:
    """Raise BadInput for an unknown kind, and for a table without its label column."""
    if unknown := [each for each in models if each.partition(":")[0] not in KINDS]:
        raise BadInput(f"unknown model kind {unknown[0][:40]!r}; use one of {', '.join(KINDS)}")
    is_table = bool({".csv", ".parquet"} & set(Path(make_file_name(name)).suffixes)) or format in ("csv", "parquet")
    if is_table and not label:
        raise BadInput(f"{name} is a table: name the column of its label with the parameter `label`").because(
            "log_label_missing"
        )


async def read_upload(request: Request) -> AsyncIterator[bytes]:
    """Yield the upload in chunks. Raises BadInput if it ends early."""
    try:
        async for chunk in read_chunks(request):
            yield chunk
    except ClientDisconnect:
        raise BadInput("the upload ended early; nothing of it was kept").because("upload_cut_off") from None


@router.get("/v1/replays", "operate", response_model=ReplaysAnswer)
async def list_replays(request: Request, runtime: RuntimeDep, language: LanguageDep) -> Response:
    """The newest replays of every replica, newest first, and the limits of an upload."""
    own = await asyncio.to_thread(runtime.parts.find(ReportMaking).replays.list_replays, language)
    found = [*(each.model_dump() for each in own), *await gather(request, "replays")]
    replays = sorted(found, key=lambda each: str(each["created_at"]), reverse=True)
    limits = {"kinds": list(KINDS), "max_bytes": runtime.parts.find(ReportMaking).replays.limits.max_log_bytes}
    return json_response({"replays": replays, **limits}, headers=VARY)


@router.get("/v1/replays/{id}", "operate", response_model=ReplayStatus)
async def get_replay(request: Request, runtime: RuntimeDep, id: str, language: LanguageDep) -> Response:
    """The progress of a replay, or its result."""

    async def load() -> Response:
        replay = await asyncio.to_thread(runtime.parts.find(ReportMaking).replays.load, id, language)
        waits = {"Retry-After": RETRY_AFTER_S} if replay.progress is not None else {}
        return json_response(replay.model_dump(), headers={**waits, **VARY})

    return await or_elsewhere(request, load())


@router.get("/v1/replays/{id}/report", "operate", response_class=HTMLResponse, responses=NOT_READY)
async def show_replay_report(request: Request, runtime: RuntimeDep, id: str, language: LanguageDep) -> Response:
    """The report of a replay; 202 and a page that waits until it is ready."""
    return await or_elsewhere(request, show_own_report(runtime.parts.find(ReportMaking), id, language))


async def show_own_report(making: ReportMaking, id: str, language: Language) -> Response:
    """Answer with the report of a replay of this replica. Raises NotFound."""
    replay = await asyncio.to_thread(making.replays.load, id)
    if replay.error is not None:
        raise NotFound(f"{replay.name} could not be replayed: {replay.error}")
    if replay.progress is not None:
        words = WORDS[language]
        return waiting_response(words("making.replay", name=replay.name), replay.progress, words)
    try:
        return await page_response(making.replays.page(id), language, name_file(f"replay of {replay.name}"))
    except FileNotFoundError:
        raise NotFound(f"{replay.name} was deleted during the request") from None


@router.delete("/v1/replays/{id}", "operate", response_model=DeletedReplay)
async def delete_replay(request: Request, runtime: RuntimeDep, id: str) -> Response:
    """Stop a replay if it waits or runs, and delete it with its report."""

    async def delete() -> Response:
        await runtime.parts.find(ReportMaking).replays.delete(id)
        return json_response({"id": id})

    return await or_elsewhere(request, delete())
