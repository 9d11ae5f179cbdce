"""HTTP: the report of a model's own log, and replays of logs that are sent, with the reports of those.

A report is a page of somebody's data: it is answered with a policy under which it can run nothing and fetch nothing.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse
from starlette.requests import ClientDisconnect

from online.errors import BadInput, NotFound
from online.models import KINDS
from online.schemas import Dropped, Name, ReplayAsked, ReplaysAnswer, ReplayShown, ReportState
from online.serving.api import ERRORS, ModelHere, PartsHere, answer, live_stamp
from online.serving.keys import Admin
from online.serving.replays import file_for
from online.serving.reports import Making
from online.store import now

router = APIRouter(responses=ERRORS)

STYLED = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
POLICY = f"sandbox; {STYLED}"
HEADERS = {"Cache-Control": "no-store", "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
AGAIN_S = "1"

IS_BEING_MADE: dict[int | str, dict[str, Any]] = {
    202: {"description": "it is being made: ask again", "content": {"text/html": {}}}
}
BODY = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"format": "binary"}}}}}

OnModels = Annotated[
    list[Annotated[str, Query(max_length=500)]],
    Query(alias="model", max_length=8, description="KIND or KIND:NAME=VALUE,...; none: those that fit"),
]
LabelColumn = Annotated[str, Query(max_length=200, description="the label's column, of a CSV or Parquet")]
MostBad = Annotated[float, Query(ge=0, le=1, description="the share of unusable lines that is borne")]
Format = Literal["", "jsonl", "csv", "parquet", "vw", "dsjson"]


# a model's own


@router.get("/v1/models/{model}/report", response_class=HTMLResponse, responses=IS_BEING_MADE)
async def report(model: ModelHere, parts: PartsHere, until: int | None = None) -> Response:
    """The model's own log, replayed, as a page; 202 and a page that waits while it is made. until: an older one."""
    name, reports = model.spec.name, parts.reports
    page = await asyncio.to_thread(reports.page, name, until)
    head = await asyncio.to_thread(model.stream.head)
    if page is not None and (until is not None or reports.fresh(page, head)):
        with suppress(FileNotFoundError):  # dropped since it was found, for a newer one
            return HTMLResponse(await asyncio.to_thread(page.read_bytes), headers={**HEADERS, **live_stamp(model)})
        return await report(model, parts, until)
    check_told(name, head)
    return waits(f"The report of {name}", reports.make(name), page, live_stamp(model))


@router.post("/v1/models/{model}/report", status_code=202, response_model=ReportState)
async def make_report(model: ModelHere, parts: PartsHere) -> Response:
    """Make it anew, however old the newest one is."""
    check_told(model.spec.name, await asyncio.to_thread(model.stream.head))
    parts.reports.make_anew(model.spec.name)
    return await told_of(model, parts, 202)


@router.get("/v1/models/{model}/report/state", response_model=ReportState)
async def report_state(model: ModelHere, parts: PartsHere) -> Response:
    """Up to where the newest one tells, and how far the next one is. Makes none."""
    return await told_of(model, parts, 200)


async def told_of(model: ModelHere, parts: PartsHere, status: int) -> Response:
    name = model.spec.name
    head = await asyncio.to_thread(model.stream.head)
    state = await asyncio.to_thread(parts.reports.state, name, head)
    return answer(state.model_dump(), status, live_stamp(model))


def check_told(name: str, head: int) -> None:
    if head == 0:
        raise NotFound(f"{name} was told nothing yet: there is nothing to report")


# of logs that are sent


@router.post("/v1/replays", status_code=202, response_model=ReplayShown, openapi_extra=BODY)
async def send_log(
    request: Request,
    parts: PartsHere,
    _: Admin,
    name: Name,
    models: OnModels = [],  # noqa: B006 (FastAPI makes a new one for each request)
    label: LabelColumn = "",
    format: Format = "",
    max_bad_ratio: MostBad = 0.0,
) -> Response:
    """Send a log as the body, to be replayed beside the service: whatever `online replay` reads.

    name: what it is called; its endings tell how it is packed and what it holds.
    """
    if unknown := [each for each in models if each.partition(":")[0] not in KINDS]:
        raise BadInput(f"unknown model kind {unknown[0][:40]!r}; one of {', '.join(KINDS)}")
    file = file_for(name)
    if ({".csv", ".parquet"} & set(Path(file).suffixes) or format in ("csv", "parquet")) and not label:
        raise BadInput(f"{name} is a table: say which of its columns is the label (label)")
    told = request.headers.get("content-length", "0")
    asked = ReplayAsked(
        name=name,
        file=file,
        models=models,
        label=label,
        format=format,
        max_bad_ratio=max_bad_ratio,
        size_bytes=0,
        created_at=now(),
    )
    id = await parts.replays.take(asked, chunks_of(request), int(told) if told.isdigit() else 0)
    headers = {"Location": f"/v1/replays/{id}", "Retry-After": AGAIN_S}
    return answer(parts.replays.one(id).model_dump(), 202, headers)


async def chunks_of(request: Request) -> AsyncIterator[bytes]:
    try:
        async for chunk in request.stream():
            yield chunk
    except ClientDisconnect:
        raise BadInput("the log broke off before its end; nothing of it was kept") from None


@router.get("/v1/replays", response_model=ReplaysAnswer)
async def replays(parts: PartsHere) -> Response:
    """The newest ones, newest first, and what can be sent."""
    shown = await asyncio.to_thread(parts.replays.shown)
    limits = {"kinds": list(KINDS), "max_bytes": parts.settings.max_log_bytes}
    return answer({"replays": [each.model_dump() for each in shown], **limits})


@router.get("/v1/replays/{id}", response_model=ReplayShown)
async def replay(parts: PartsHere, id: str) -> Response:
    """How far it is, or what became of it."""
    shown = await asyncio.to_thread(parts.replays.one, id)
    return answer(shown.model_dump(), headers={"Retry-After": AGAIN_S} if shown.progress is not None else None)


@router.get("/v1/replays/{id}/report", response_class=HTMLResponse, responses=IS_BEING_MADE)
async def replay_report(parts: PartsHere, id: str) -> Response:
    """What it came to, as a page; 202 and a page that waits while it is made."""
    shown = await asyncio.to_thread(parts.replays.one, id)
    if shown.error is not None:
        raise NotFound(f"{shown.name} could not be replayed: {shown.error}")
    if shown.progress is not None:
        return waits(f"The replay of {shown.name}", Making(shown.progress.what, shown.progress.percent))
    try:
        return HTMLResponse(await asyncio.to_thread(parts.replays.page(id).read_bytes), headers=HEADERS)
    except FileNotFoundError:
        raise NotFound(f"{shown.name} was dropped while it was asked for") from None


@router.delete("/v1/replays/{id}", response_model=Dropped)
async def drop_replay(parts: PartsHere, id: str, _: Admin) -> Response:
    """End it, if it waits or runs, and forget it with its report."""
    await parts.replays.drop(id)
    return answer({"id": id})


# while it is made


def waits(what: str, making: Making, older: Path | None = None, headers: dict[str, str] | None = None) -> Response:
    waiting = {"Retry-After": "2", "Cache-Control": "no-store", "Content-Security-Policy": STYLED}
    return HTMLResponse(waiting_page(what, making, older), 202, headers={**waiting, **(headers or {})})


def waiting_page(what: str, making: Making, older: Path | None) -> str:
    """Asks again by itself."""
    before = f'<p><a href="?until={older.stem}">The report up to event {int(older.stem):,}</a></p>' if older else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2">'
        '<meta name="viewport" content="width=device-width"><title>Report being made</title>'
        '<body style="font: 1rem/1.5 system-ui, sans-serif; max-width: 30rem; margin: 4rem auto; padding: 0 1rem">'
        f"<h1>{escape(what)} is being made</h1>"
        f'<p>{escape(making.what)}: <progress max="100" value="{making.percent}"></progress> {making.percent} %</p>'
        f"{before}"
    )
