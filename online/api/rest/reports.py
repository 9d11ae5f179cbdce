"""The report of a model's own log: its replay, as an HTML page.

A report shows data from users. Its content security policy lets it run no script and load nothing.
"""

import asyncio
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import ERROR_RESPONSES, json_response, live_headers
from online.errors import NotFound
from online.schemas.reports import CancelledReport, Progress, ReportState
from online.serving.model_runtime import ModelRuntime
from online.serving.runtime import Runtime

router = APIRouter(responses=ERROR_RESPONSES)

STYLE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"sandbox; {STYLE_POLICY}",
    "X-Content-Type-Options": "nosniff",
}
NOT_READY: dict[int | str, dict[str, Any]] = {
    202: {"description": "The report is being created; ask again.", "content": {"text/html": {}}}
}


@router.get("/v1/models/{model}/report", response_class=HTMLResponse, responses=NOT_READY)
async def show_report(model: ModelDep, runtime: RuntimeDep, until: int | None = None) -> Response:
    """The newest report; 202 and a page that waits where it is out of date. until: the offset of an older report."""
    name, reports = model.spec.name, runtime.reports
    page = await asyncio.to_thread(reports.page, name, until)
    head = await asyncio.to_thread(model.stream.head)
    if page is not None and (until is not None or reports.is_fresh(page, head)):
        with suppress(FileNotFoundError):  # it was deleted in the meantime, for a newer one
            named = name_file(f"report on {name} up to event {page.stem}")
            content = await asyncio.to_thread(page.read_bytes)
            return HTMLResponse(content, headers={**HEADERS, **named, **live_headers(model)})
        return await show_report(model, runtime, until)
    check_not_empty(name, head)
    runtime.disk.check_room()
    return waiting_response(f"The report of {name}", reports.make(name).describe(), page, live_headers(model))


@router.post("/v1/models/{model}/report", status_code=202, response_model=ReportState)
async def create_report(model: ModelDep, runtime: RuntimeDep) -> Response:
    """Create a new report, even if the newest one is up to date."""
    check_not_empty(model.spec.name, await asyncio.to_thread(model.stream.head))
    runtime.disk.check_room()
    runtime.reports.remake(model.spec.name)
    return await describe_state(model, runtime, 202)


@router.delete("/v1/models/{model}/report", response_model=CancelledReport)
async def cancel_report(model: ModelDep, runtime: RuntimeDep) -> Response:
    """Stop a report that is being made. Finished reports stay."""
    return json_response({"cancelled": await runtime.reports.cancel(model.spec.name)})


@router.get("/v1/models/{model}/report/state", response_model=ReportState)
async def get_report_state(model: ModelDep, runtime: RuntimeDep) -> Response:
    """The offset of the newest report, and the progress of the next one. It creates none."""
    return await describe_state(model, runtime, 200)


async def describe_state(model: ModelRuntime, runtime: Runtime, status: int) -> Response:
    head = await asyncio.to_thread(model.stream.head)
    state = await asyncio.to_thread(runtime.reports.state, model.spec.name, head)
    return json_response(state.model_dump(), status, live_headers(model))


def name_file(name: str) -> dict[str, str]:
    """Return the header that names the file under which a browser saves the page."""
    plain = "".join(each if each.isalnum() and each.isascii() else "-" for each in name)[:100]
    return {"Content-Disposition": f'inline; filename="{plain}.html"'}


def check_not_empty(name: str, head: int) -> None:
    """Raises NotFound for a log without events."""
    if head == 0:
        raise NotFound(f"{name} has received no feedback yet: there is nothing to report")


def waiting_response(
    title: str, making: Progress, older: Path | None = None, headers: dict[str, str] | None = None
) -> Response:
    """202 and a page that reloads itself. older: the previous report, which it links to."""
    waiting = {"Retry-After": "2", "Cache-Control": "no-store", "Content-Security-Policy": STYLE_POLICY}
    return HTMLResponse(_render_waiting(title, making, older), 202, headers={**waiting, **(headers or {})})


def _render_waiting(title: str, making: Progress, older: Path | None) -> str:
    link = f'<p><a href="?until={older.stem}">The report up to event {int(older.stem):,}</a></p>' if older else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)} is in progress</title>"
        '<body style="font: 1rem/1.5 system-ui, sans-serif; max-width: 30rem; margin: 4rem auto; padding: 0 1rem">'
        f"<main><h1>{escape(title)} is in progress</h1>"
        f'<p><progress max="100" value="{making.percent}" aria-label="Progress" style="width: 100%"></progress></p>'
        f"<p>{escape(describe_progress(making))}</p><p>This page shows it as soon as it is ready.</p>{link}</main>"
    )


def describe_progress(making: Progress) -> str:
    """Return a line on how far it is: 42 %, replaying it: 4,200 of 10,000 events, 20 s left."""
    words = f"{making.percent} %, {making.what}"
    if making.ahead:
        words += f", after {making.ahead} other{'s' if making.ahead > 1 else ''}"
    if making.done and making.total:
        words += f": {making.done:,} of {making.total:,} events"
    if making.left_s is not None:
        minutes, seconds = divmod(round(making.left_s), 60)
        words += f", about {minutes} min {seconds:02} s left" if minutes else f", about {seconds} s left"
    return words
