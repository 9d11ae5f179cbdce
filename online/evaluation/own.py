"""A service's own log on one page: written out, replayed on its own model, drawn.

store --Export--> a file beside the page --replay--> figures --> page.html     the file is gone afterwards
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from online.errors import BadInput
from online.evaluation.export import Export
from online.evaluation.race import alone
from online.evaluation.replay import Contender, Span
from online.evaluation.report import write_report
from online.evaluation.sources import open_source
from online.settings import ModelSettings
from online.workspace import Workspace

Tick = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much
PARTS = 1_000


def write_own_report(workspace: Workspace, model: ModelSettings, output: Path, tick: Tick) -> int:
    """Write the page of everything up to now; gives the offset up to which it tells.

    It appears when it is whole. Raises BadInput where nothing was ever told, SetupError where it cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix=".report-", dir=output.resolve().parent) as folder:
        log, page = Path(folder) / f"{model.name}.jsonl.zst", Path(folder) / output.name
        made = Export(workspace, model)
        if not made.head:
            raise BadInput(f"{model.name} was told nothing yet: there is nothing to report")
        made.write(log, lambda done, of: tick("writing the log", done, of))
        results, interrupted = alone(
            open_source(str(log)),
            Contender(model.kind, name=model.name),
            Span(),
            0.0,
            lambda share, examples: tick("replaying it", int(PARTS * share), PARTS),
        )
        if interrupted:
            raise KeyboardInterrupt
        write_report(results, model.name, interrupted, page)
        os.replace(page, output)
        return made.head
