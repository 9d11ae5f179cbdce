"""Removes an erased user from the files of batch jobs.

<state>/jobs/<id>.json      the record of a job         --names the user--> deleted
the results of a job                                    --lines that name the user--> left out
the input of a job          belongs to who sent the job --names the user--> said in the statement
"""

from collections.abc import Callable
from pathlib import Path

from online.errors import OnlineError
from online.plugins.jobs.batch_queue import resolve_path
from online.plugins.jobs.batch_records import JobRecords, find_job_folder
from online.plugins.jobs.schemas import JobStatus
from online.serving.erasure.files import FileInUse, NameSearch
from online.settings import Settings
from online.state.workspace import Workspace


def forget_in_jobs(workspace: Workspace, user: NameSearch, is_running: Callable[[str], bool]) -> dict[str, list[str]]:
    """Return ids of jobs by what was found. is_running: of a job. Raises FileInUse."""
    records = JobRecords(find_job_folder(workspace))
    found: dict[str, list[str]] = {
        "job_records_removed": [],
        "job_results_rewritten": [],
        "job_inputs_that_name_the_user": [],
    }
    for job in records.list_jobs():
        input, results = find_files(workspace.settings, job)
        naming = [path for path in results if user.is_in(path)]
        if is_running(job.id) and (naming or user.is_in(input)):
            raise FileInUse(f"the batch job {job.id}, whose files name the user")
        for path in naming:
            user.leave_out_lines(path)
            found["job_results_rewritten"].append(f"{job.id}/{path.name}")
        if user.is_in(input):
            found["job_inputs_that_name_the_user"].append(job.id)
        if user.is_in(records.folder / f"{job.id}.json"):
            records.delete(job)
            found["job_records_removed"].append(job.id)
    return found


def find_files(settings: Settings, job: JobStatus) -> tuple[Path, list[Path]]:
    """Return the input of a job, and the files in its folder that a job writes."""
    try:
        folder, source = resolve_path(settings, job.output), resolve_path(settings, job.input)
    except OnlineError:  # the folders of jobs were changed, so the service may not touch these files any more
        return Path(), []
    written = [*folder.glob("prediction.*"), *folder.glob(".prediction.*")] if folder.is_dir() else []
    return source, sorted(written)
