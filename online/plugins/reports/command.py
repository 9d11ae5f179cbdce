"""`online log report`, and the commands that a service starts for reports."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from online.cli.options import (
    ConfigOption,
    ModelOption,
    ReportLanguageOption,
    StateOption,
    StoreOption,
    SupervisedOption,
)
from online.cli.processes import limited_resources, lower_priority, read_parent_settings
from online.cli.progress import print_percents, show_bar
from online.cli.state import load_settings, open_workspace, select_model
from online.errors import OnlineError


def report(
    output: Annotated[Path, typer.Option("--output", help="File to write: one page of HTML.")],
    model: ModelOption = None,
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    language: ReportLanguageOption = "en",
    supervised: SupervisedOption = False,
) -> None:
    """Replay the log of a model on that model, and write the result as a page with plots.

    A service may run at the same time. It shows the same page at /v1/models/MODEL/report.

    \b
    Example:
      online log report --model chat --output chat.html
    """
    settings = read_parent_settings() if supervised else load_settings(config, state=state, store=store)
    lower_priority()
    from online.plugins.reports.languages import ALL_WORDS, WORDS
    from online.plugins.reports.model_report import write_model_report

    spec = select_model(settings, model)
    run = print_percents if supervised else show_bar
    languages = ALL_WORDS if supervised else (WORDS[language],)  # a service shows each reader theirs
    with open_workspace(settings) as workspace:
        until = run(lambda tick: write_model_report(workspace, spec, output, tick, languages))
    typer.echo(json.dumps({"until": until}) if supervised else f"{output} reports on every event up to {until:,}")


def replay_upload(folder: Path) -> None:
    """Replay a log that was uploaded to the service, which starts this command."""
    settings = read_parent_settings()
    lower_priority()
    from online.io.records import ReadLimits
    from online.plugins.reports.uploaded_log import prefer_as_oom_victim, replay_uploaded_log

    prefer_as_oom_victim()

    def show_models(models: list[str]) -> None:
        print(json.dumps({"models": models}), flush=True)

    with limited_resources(settings), told_causes():
        limits = ReadLimits.of(settings)
        print_percents(lambda tick: replay_uploaded_log(folder, limits, show_models, tick))


def recognise_columns(folder: Path) -> None:
    """Print what the columns of a table are that was uploaded to the service, which starts this command."""
    settings = read_parent_settings()
    lower_priority()
    from online.io.records import ReadLimits
    from online.plugins.reports.uploaded_log import describe_uploaded_columns, prefer_as_oom_victim

    prefer_as_oom_victim()
    with limited_resources(settings), told_causes():
        found = describe_uploaded_columns(folder, ReadLimits.of(settings))
        print(json.dumps({"columns": found.model_dump()}), flush=True)


@contextmanager
def told_causes() -> Iterator[None]:
    """Print the code of an error for the service, beside its message, which goes to standard error."""
    try:
        yield
    except OnlineError as error:
        if error.code:
            print(json.dumps({"cause": {"code": error.code, "figures": {**error.figures}}}), flush=True)
        raise
