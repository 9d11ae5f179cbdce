"""Removes an erased user from reports and uploaded logs.

<state>/replays/<id>/       an uploaded log and its report   --names the user--> deleted
<state>/reports/<model>/    reports on the log               --of a model that had learned the user--> deleted
"""

import shutil

from online.installed import ContributedParts
from online.plugins.reports.making import ReportMaking
from online.plugins.reports.replay_jobs import find_replays
from online.plugins.reports.report_jobs import find_reports
from online.serving.erasure.files import FileInUse, NameSearch
from online.state.workspace import Workspace


def remove_uploads(workspace: Workspace, user: NameSearch, parts: ContributedParts) -> list[str]:
    """Return the ids of the replays that were deleted. Raises FileInUse."""
    removed = []
    for folder in sorted(find_replays(workspace).glob("[0-9a-f]*")):
        if any(user.is_in(path) for path in sorted(folder.rglob("*")) if path.is_file()):
            if any(folder.name in making.replays.running for making in parts.list(ReportMaking)):
                raise FileInUse(f"the replay {folder.name} of an uploaded log that names the user")
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder.name)
    return removed


def remove_reports(workspace: Workspace, model: str, parts: ContributedParts) -> int:
    """Delete the reports on a model's log; return how many. Raises FileInUse while one is being made."""
    if any(model in making.reports.making for making in parts.list(ReportMaking)):
        raise FileInUse(f"the report on {model}, which is being made")
    pages = list((find_reports(workspace) / model).glob("*.html"))
    for page in pages:
        page.unlink(missing_ok=True)
    return len({page.name.partition(".")[0] for page in pages})  # one has a page for each language
