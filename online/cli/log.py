"""`online log export`: the log of a model as a file."""

from pathlib import Path
from typing import Annotated

import typer

from online.cli.options import ConfigOption, ModelOption, StateOption, StoreOption
from online.cli.progress import show_bar
from online.cli.state import load_settings, open_workspace, select_model


def export(
    output: Annotated[Path, typer.Option("--output", help="File to write: JSONL, compressed if it ends in .gz.")],
    model: ModelOption = None,
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Write the log of a model as JSONL: every event in order, each with its prediction.

    \b
    Example:
      online log export --model chat --output chat.jsonl.gz
    """
    from online.evaluation.sources.log_export import LogExport

    settings = load_settings(config, state=state, store=store)
    spec = select_model(settings, model)
    with open_workspace(settings) as workspace:
        exported = LogExport(workspace, spec)
        show_bar(lambda tick: exported.write(output, lambda done, total: tick("writing", done, total)))
    typer.echo(f"{exported.head:,} events and {exported.prediction_count:,} predictions written to {output}", err=True)
