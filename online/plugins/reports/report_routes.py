"""The report of a model's own log: its replay, as an HTML page.

A report shows data from users. Its content security policy lets it run no script and load nothing.
"""

import asyncio
from contextlib import suppress
from html import escape
from pathlib import Path

from fastapi import Request, Response
from fastapi.responses import HTMLResponse

from online.api.dependencies import ModelDep, RuntimeDep
from online.api.replica_requests import at_owner
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.errors import NotFound
from online.evaluation.words import LanguageWords
from online.plugins.reports.findings import find_translation
from online.plugins.reports.languages import WORDS
from online.plugins.reports.making import ReportMaking
from online.plugins.reports.report_language import VARY, LanguageDep, describe_language
from online.plugins.reports.schemas import CancelledReport, ReportProgress, ReportState
from online.schemas.fields import Language
from online.schemas.json_values import JSONObject
from online.serving.model_runtime import ModelRuntime
from online.serving.runtime import Runtime

router = Router()

STYLE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"sandbox; {STYLE_POLICY}; font-src data:",  # the report holds its font
    "X-Content-Type-Options": "nosniff",
}
NOT_READY: dict[int | str, JSONObject] = {
    202: {"description": "The report is being created; ask again.", "content": {"text/html": {}}}
}


@router.get("/v1/models/{model}/report", "operate", response_class=HTMLResponse, responses=NOT_READY)
async def show_report(
    request: Request, model: ModelDep, runtime: RuntimeDep, language: LanguageDep, until: int | None = None
) -> Response:
    """The newest report; 202 and a page that waits where it is out of date. until: the offset of an older report."""
    elsewhere = await at_owner(request, model.spec.name)
    return elsewhere or await show_own_report(model, runtime, language, until)


async def show_own_report(model: ModelRuntime, runtime: Runtime, language: Language, until: int | None) -> Response:
    """Answer with a report that this replica has made, or begin to make it."""
    name, reports = model.spec.name, runtime.parts.find(ReportMaking).reports
    page = await asyncio.to_thread(reports.page, name, until)
    head = await asyncio.to_thread(model.stream.head)
    if page is not None and (until is not None or reports.is_fresh(page, head)):
        with suppress(FileNotFoundError):  # it was deleted in the meantime, for a newer one
            named = name_file(f"report on {name} up to event {page.stem}")
            return await page_response(page, language, {**named, **live_headers(model)})
        return await show_own_report(model, runtime, language, until)
    check_not_empty(name, head)
    runtime.disk.check_room()
    words = WORDS[language]
    title = words("making.report", model=name)
    return waiting_response(title, reports.make(name).describe(), words, page, live_headers(model))


async def page_response(page: Path, language: Language, headers: dict[str, str]) -> Response:
    """Return a report in a language; in English where it was not written in that one. Raises FileNotFoundError."""

    def read() -> tuple[Path, bytes]:
        shown = find_translation(page, language)
        return shown, shown.read_bytes()

    shown, content = await asyncio.to_thread(read)
    written: Language = "en" if shown == page else language
    return HTMLResponse(content, headers={**HEADERS, **headers, **describe_language(written)})


@router.post("/v1/models/{model}/report", "operate", status_code=202, response_model=ReportState)
async def create_report(request: Request, model: ModelDep, runtime: RuntimeDep, language: LanguageDep) -> Response:
    """Create a new report, even if the newest one is up to date."""
    if (elsewhere := await at_owner(request, model.spec.name)) is not None:
        return elsewhere
    check_not_empty(model.spec.name, await asyncio.to_thread(model.stream.head))
    runtime.disk.check_room()
    runtime.parts.find(ReportMaking).reports.remake(model.spec.name)
    return await describe_state(model, runtime, language, 202)


@router.delete("/v1/models/{model}/report", "operate", response_model=CancelledReport)
async def cancel_report(request: Request, model: ModelDep, runtime: RuntimeDep) -> Response:
    """Stop a report that is being made. Finished reports stay."""
    if (elsewhere := await at_owner(request, model.spec.name)) is not None:
        return elsewhere
    return json_response({"cancelled": await runtime.parts.find(ReportMaking).reports.cancel(model.spec.name)})


@router.get("/v1/models/{model}/report/state", "operate", response_model=ReportState)
async def get_report_state(request: Request, model: ModelDep, runtime: RuntimeDep, language: LanguageDep) -> Response:
    """The offset of the newest report, and the progress of the next one. It creates none."""
    elsewhere = await at_owner(request, model.spec.name)
    return elsewhere or await describe_state(model, runtime, language, 200)


async def describe_state(model: ModelRuntime, runtime: Runtime, language: Language, status: int) -> Response:
    """Answer with the state of a model's report."""
    head = await asyncio.to_thread(model.stream.head)
    state = await asyncio.to_thread(runtime.parts.find(ReportMaking).reports.state, model.spec.name, head, language)
    return json_response(state.model_dump(), status, {**live_headers(model), **VARY})


def name_file(name: str) -> dict[str, str]:
    """Return the header that names the file under which a browser saves the page."""
    plain = "".join(each if each.isalnum() and each.isascii() else "-" for each in name)[:100]
    return {"Content-Disposition": f'inline; filename="{plain}.html"'}


def check_not_empty(name: str, head: int) -> None:
    """Raise NotFound for a log without events."""
    if head == 0:
        raise NotFound(f"{name} has received no feedback yet: there is nothing to report")


def waiting_response(
    title: str,
    making: ReportProgress,
    words: LanguageWords,
    older: Path | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """202 and a page that reloads itself. older: the previous report, which it links to."""
    waiting = {"Retry-After": "2", "Cache-Control": "no-store", "Content-Security-Policy": STYLE_POLICY}
    named = {**waiting, **describe_language(words.language), **(headers or {})}
    return HTMLResponse(_render_waiting(title, making, words, older), 202, headers=named)


def _render_waiting(title: str, making: ReportProgress, words: LanguageWords, older: Path | None) -> str:
    heading, link = escape(words("making", title=title)), ""
    if older:
        label = words("making.older", until=int(older.stem))
        link = f'<p><a href="?until={older.stem}&amp;language={words.language}">{label}</a></p>'
    return (
        f'<!doctype html><html lang="{words.language}"><meta charset="utf-8"><meta http-equiv="refresh" content="2">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<title>{heading}</title>"
        '<body style="font: 1rem/1.5 system-ui, sans-serif; max-width: 30rem; margin: 4rem auto; padding: 0 1rem">'
        f"<main><h1>{heading}</h1>"
        f'<p><progress max="100" value="{making.percent}" aria-label="{words("making.progress")}" style="width: 100%">'
        f"</progress></p><p>{escape(describe_progress(making, words))}</p><p>{words('making.soon')}</p>{link}</main>"
    )


def describe_progress(making: ReportProgress, words: LanguageWords) -> str:
    """Return a line on how far it is: 42 %, replaying it: 4,200 of 10,000 events, 20 s left."""
    line = words("making.percent", percent=making.percent, step=words(f"step.{making.what}"))
    if making.ahead:
        line += words.plural("making.ahead", making.ahead)
    if making.done and making.total:
        line += words("making.events", done=making.done, total=making.total)
    if making.left_s is not None:
        line += words("making.left", time=words.duration(max(1, round(making.left_s))))
    return line
