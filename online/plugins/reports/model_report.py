"""Writes a report on one model of a service: exports its log, replays it and renders the page.

store --LogExport--> temporary file --replay--> results --> page.html
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from online.errors import BadInput
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.runs import replay_one
from online.evaluation.sources.log_export import LogExport
from online.evaluation.sources.opening import open_source
from online.evaluation.words import IN_ENGLISH, LanguageWords
from online.io.progress import Progress
from online.plugins.reports.report_page import write_report
from online.settings import ModelSettings
from online.state.workspace import Workspace, name_translation


def write_model_report(
    workspace: Workspace,
    model: ModelSettings,
    output: Path,
    tick: Progress,
    languages: Sequence[LanguageWords] = (IN_ENGLISH,),
) -> int:
    """Write the page for all events so far; return the offset of the last one.

    languages: of the pages. The first is `output`; the others are beside it, and named as `name_translation` says.
    Each page appears only when complete, the first one last. Raises BadInput if there are no events, SetupError if the
    page cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix=".report-", dir=output.resolve().parent) as folder:
        log = Path(folder) / f"{model.name}.jsonl.zst"
        export = LogExport(workspace, model)
        if not export.head:
            raise BadInput(f"{model.name} has no events yet: there is nothing to report")
        export.write(log, lambda done, of: tick("writing the log", done, of))
        results, interrupted = replay_one(
            open_source(str(log)),
            CandidateSpec(model.kind, name=model.name, baseline=True),
            ScoredSpan(),
            0.0,
            lambda share, examples: tick("replaying it", int(share * export.head), export.head),
        )
        if interrupted:
            raise KeyboardInterrupt
        tick("writing the page", 0, 1)
        for words in reversed(languages):
            page = output if words is languages[0] else name_translation(output, words.language)
            aside = Path(folder) / page.name
            title = words("title.model", model=model.name, until=export.head)
            write_report(results, model.name, interrupted, aside, title, words)
            os.replace(aside, page)
        return export.head
