"""Records of batch prediction jobs: <state>/jobs/<id>.json holds the request, and what became of it."""

import re
from pathlib import Path

from online.errors import NotFound
from online.plugins.jobs.batch_files import replace_durably, reporting_disk_errors
from online.plugins.jobs.schemas import JobStatus
from online.state.workspace import Workspace

MAX_ENDED = 100  # newest ended jobs whose records are kept
ID = re.compile("[0-9a-f]{32}")


def find_job_folder(workspace: Workspace) -> Path:
    """Return the folder of the records."""
    return workspace.state / "jobs"


class JobRecords:
    """Reads and writes the records of one state folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def list_jobs(self) -> list[JobStatus]:
        """Return all records, newest first."""
        records = [self.read(path.stem) for path in self.folder.glob("[0-9a-f]*.json")]
        return sorted((each for each in records if each is not None), key=lambda each: each.created_at, reverse=True)

    def load(self, model: str, id: str) -> JobStatus:
        """Return what is stored under an id. Raises NotFound."""
        record = self.read(id) if ID.fullmatch(id) else None
        if record is None or record.model != model:
            raise NotFound(f"{model} has no job {id[:40]!r}; of ended jobs the newest {MAX_ENDED} are kept")
        return record

    def read(self, id: str) -> JobStatus | None:
        """Return the record of a job; None if it was deleted."""
        try:
            return JobStatus.model_validate_json((self.folder / f"{id}.json").read_bytes())
        except (OSError, ValueError):
            return None  # deleted meanwhile

    def save(self, job: JobStatus) -> None:
        """Raise Unavailable if the record cannot be written."""
        with reporting_disk_errors():
            replace_durably(self.folder / f"{job.id}.json", job.model_dump_json().encode())

    def delete(self, job: JobStatus) -> None:
        """Delete the record of a job."""
        (self.folder / f"{job.id}.json").unlink(missing_ok=True)
