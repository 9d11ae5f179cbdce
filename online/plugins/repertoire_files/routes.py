"""The export of a repertoire as a file, and the import of one."""

from dataclasses import asdict

from fastapi import Request, Response

from online.api.audit import name_offset, record_action
from online.api.auth.scopes import CallerDep
from online.api.bodies import read_body
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response, live_headers
from online.api.rest.replies import build_admit, build_note, check_ranker
from online.api.routes import Router
from online.plugins.repertoire_files.file_imports import FileImports
from online.plugins.repertoire_files.reply_files import FileFormat, Format, PlannedLine, write_file
from online.plugins.repertoire_files.schemas import ImportAnswer, ReplyLine
from online.serving.model_runtime import ModelRuntime
from online.store.repertoire.examples import load_examples
from online.store.repertoire.replies import ReplyRow, load_replies

XLSX_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
FILE_SCHEMAS = {"text/plain": {"type": "string"}, XLSX_TYPE: {"type": "string", "format": "binary"}}
FILE_BODY = {
    "requestBody": {"required": True, "content": {type: {"schema": schema} for type, schema in FILE_SCHEMAS.items()}}
}
FILE_TYPES = {"jsonl": "application/jsonl", "csv": "text/csv"}

router = Router()


@router.get("/v1/models/{model}/replies:export", "curate", response_class=Response)
async def export_replies(model: ModelDep, format: Format = "jsonl") -> Response:
    """All replies with their example questions, as a file that can be imported again."""
    check_ranker(model)
    rows, questions = await load_repertoire(model)
    lines = [ReplyLine(id=row.id, text=row.text, examples=questions[row.id], active=row.active) for row in rows]
    name = f"{model.spec.name}-replies.{format}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', **live_headers(model)}
    return Response(write_file(lines, format), headers=headers, media_type=FILE_TYPES[format])


@router.post("/v1/models/{model}/replies:import", "teach", response_model=ImportAnswer, openapi_extra=FILE_BODY)
async def import_replies(
    request: Request,
    model: ModelDep,
    runtime: RuntimeDep,
    caller: CallerDep,
    format: FileFormat = "jsonl",
    dry_run: bool = False,
    skip_bad: bool = False,
) -> Response:
    """Import a file of replies in one transaction. If a line is invalid nothing is changed, unless `skip_bad` is set.

    format: `jsonl`, `csv`, or `xlsx` (the first sheet with the columns). dry_run: change nothing, and answer what each line would do.
    """
    check_ranker(model)
    body, imports = await read_body(request, runtime.settings), model.parts.find(FileImports)
    file = await imports.parse(body, format)
    if dry_run:
        planned, offset = await imports.plan(file.lines), None
    else:
        admit, note = build_admit(model, runtime, caller), build_note(model, caller)
        planned, offset = await imports.import_lines(file.lines, skip_bad, admit, note)
        model.feed.notify_curators()
        await record_action(request, "import_replies", model.spec.name, name_offset(offset), lines=len(planned))
    bad = sum(each.error is not None for each in planned)
    shared = sum(len(each.shared) for each in planned)
    sheets = {"sheet": file.sheet, "other_sheets": file.others}
    content = {"lines": [describe_line(each) for each in planned], **sheets, "bad": bad, "shared": shared}
    content["offset"] = offset
    return json_response(content, headers=live_headers(model))


def describe_line(planned: PlannedLine) -> dict[str, object]:
    """Return what a line of an imported file does, or why it cannot."""
    fields = {"line": planned.number, "id": planned.id, "text": planned.text, "does": planned.does, "was": planned.was}
    problem = None if planned.error is None else asdict(planned.error)
    error = None if problem is None else problem.pop("message")
    examples = len(planned.change.examples) if planned.change else 0
    shared = [each.model_dump() for each in planned.shared]
    return {**fields, "examples": examples, "shared": shared, "error": error, "problem": problem}


async def load_repertoire(model: ModelRuntime) -> tuple[list[ReplyRow], dict[str, list[str]]]:
    """Return all replies, and the example questions of each by its id."""
    name = model.spec.name
    rows, examples = await model.read(
        lambda connection: (load_replies(connection, name), load_examples(connection, name))
    )
    questions: dict[str, list[str]] = {row.id: [] for row in rows}
    for id, _, text in examples:
        questions.setdefault(id, []).append(text)
    return rows, questions
