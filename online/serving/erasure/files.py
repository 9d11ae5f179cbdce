"""Files of the state folder, and of batch jobs, that name a user: found by a search for the name, and removed.

    <state>/replays/<id>/       an uploaded log and its report   --names the user--> deleted
    <state>/jobs/<id>.json      the record of a batch job        --names the user--> deleted
    the results of a batch job                                   --lines that name the user--> left out
    the input of a batch job    belongs to who sent the job      --names the user--> said in the statement
    <state>/reports/<model>/    reports on the log               --of a model that had learned the user--> deleted

A name is found where no letter or digit precedes or follows it, as it is written and as JSON escapes it.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from online.errors import BadInput, OnlineError
from online.io.parquet_tables import open_parquet, read_parquet_rows
from online.io.records import open_bytes
from online.serving.jobs.batch_files import replace_durably
from online.serving.jobs.batch_records import JobRecords
from online.state.workspace import Workspace

CHUNK_BYTES = 1 << 20
PARQUET = ".parquet"


class FileInUse(Exception):
    """A file that names the user is in use now; it is searched again later."""


@dataclass(frozen=True, slots=True)
class JobFiles:
    """How a running service names its files. resolve: a path of a job's request. is_running: of a job or replay."""

    resolve: Callable[[str], Path]
    is_running: Callable[[str], bool]


def remove_files(workspace: Workspace, jobs: JobFiles, user: str) -> dict[str, Any]:
    """Remove what names the user; return what was found. Raises Busy."""
    name = name_pattern(user)
    return {
        "uploads_removed": remove_uploads(workspace, jobs, name),
        **remove_jobs(workspace, jobs, name),
    }


def name_pattern(user: str) -> re.Pattern[bytes]:
    """A pattern for a name as it stands in a file of UTF-8 or JSON."""
    forms = {user, json.dumps(user)[1:-1], json.dumps(user, ensure_ascii=False)[1:-1]}
    written = b"|".join(sorted(re.escape(form.encode(errors="replace")) for form in forms))
    return re.compile(rb"(?<![0-9A-Za-z_])(?:%s)(?![0-9A-Za-z_])" % written)


def remove_uploads(workspace: Workspace, jobs: JobFiles, name: re.Pattern[bytes]) -> list[str]:
    removed = []
    for folder in sorted(workspace.replays.glob("[0-9a-f]*")):
        if any(contains(path, name) for path in sorted(folder.rglob("*")) if path.is_file()):
            if jobs.is_running(folder.name):
                raise FileInUse(f"the replay {folder.name} of an uploaded log that names the user")
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder.name)
    return removed


def remove_jobs(workspace: Workspace, jobs: JobFiles, name: re.Pattern[bytes]) -> dict[str, Any]:
    records = JobRecords(workspace.jobs)
    found: dict[str, Any] = {
        "job_records_removed": [],
        "job_results_rewritten": [],
        "job_inputs_that_name_the_user": [],
    }
    for job in records.list_jobs():
        input, results = find_job_files(jobs, job.input, job.output)
        naming = [path for path in results if contains(path, name)]
        if jobs.is_running(job.id) and (naming or contains(input, name)):
            raise FileInUse(f"the batch job {job.id}, whose files name the user")
        for path in naming:
            leave_out_lines(path, name)
            found["job_results_rewritten"].append(f"{job.id}/{path.name}")
        if contains(input, name):
            found["job_inputs_that_name_the_user"].append(job.id)
        if contains(workspace.jobs / f"{job.id}.json", name):
            records.delete(job)
            found["job_records_removed"].append(job.id)
    return found


def find_job_files(jobs: JobFiles, input: str, output: str) -> tuple[Path, list[Path]]:
    """The input of a job, and the files in its folder that a job writes."""
    try:
        folder, source = jobs.resolve(output), jobs.resolve(input)
    except OnlineError:  # the folders of jobs were changed, so the service may not touch these files any more
        return Path(), []
    written = [*folder.glob("prediction.*"), *folder.glob(".prediction.*")] if folder.is_dir() else []
    return source, sorted(written)


def contains(path: Path, name: re.Pattern[bytes]) -> bool:
    """Whether a file, decompressed, contains the name. One that cannot be read is searched as it is."""
    if not path.is_file():
        return False
    try:
        return any(name.search(chunk) for chunk in read_chunks(path))
    except BadInput:
        return any(name.search(chunk) for chunk in read_raw(path))


def read_chunks(path: Path) -> Iterator[bytes]:
    """The content in pieces that overlap, so that a name on a border is found."""
    if path.suffix == PARQUET:
        rows = read_parquet_rows(path, open_parquet(path))
        yield from (json.dumps(row, default=str, ensure_ascii=False).encode() for row in rows)
        return
    before = b""
    with open_bytes(path) as (file, _):
        while chunk := file.read(CHUNK_BYTES):
            yield before + chunk
            before = chunk[-CHUNK_BYTES // 16 :]


def read_raw(path: Path) -> Iterator[bytes]:
    try:
        yield path.read_bytes()
    except OSError:
        return  # deleted meanwhile


def leave_out_lines(path: Path, name: re.Pattern[bytes]) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    replace_durably(path, b"".join(line for line in lines if not name.search(line)))


def remove_reports(workspace: Workspace, model: str) -> int:
    """Delete the reports on a model's log; return how many."""
    pages = list(workspace.reports(model).glob("*.html"))
    for page in pages:
        page.unlink(missing_ok=True)
    return len({page.name.partition(".")[0] for page in pages})  # one has a page for each language
