"""`online adapt`: tune the text encoder of a model on the feedback it has received."""

import json
from typing import Annotated

import typer

from online.cli.options import (
    ConfigOption,
    DelimiterOption,
    DropOption,
    FeatureOption,
    JsonOption,
    MaxBadRatioOption,
    ModelOption,
    StateOption,
    StoreOption,
    SupervisedOption,
    parse_delimiter,
)
from online.cli.processes import keep_files_private, lower_priority, read_parent_settings
from online.cli.progress import run_silently, show_bar
from online.cli.state import load_settings, open_workspace, select_model


def adapt(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...", help="Labelled texts that count beside the feedback: JSONL, CSV, Parquet, or -."
        ),
    ] = None,
    label: Annotated[str, typer.Option("--label", help="Column of the right answer (CSV, Parquet).")] = "",
    format: Annotated[str, typer.Option("--format", help="jsonl, csv or parquet. Default: by name and content.")] = "",
    drop: DropOption = None,
    feature: FeatureOption = None,
    delimiter: DelimiterOption = "",
    max_bad_ratio: MaxBadRatioOption = 0.0,
    model: ModelOption = None,
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Put the tuned encoder into use if it is proven better.")
    ] = False,
    frozen: Annotated[bool, typer.Option("--frozen", help="Go back to the original encoder.")] = False,
    as_json: JsonOption = False,
    supervised: SupervisedOption = False,
) -> None:
    """Tune the text encoder of a model on its feedback, by Siamese training: texts of a class closer, others further.

    The tuned encoder is compared with the present one on feedback that was held out. Without
    --publish nothing changes. With it (or with --frozen) a service may run: it continues to answer
    and to learn.

    A model that has no feedback yet is tuned on files of labelled texts. Its rows are not learned: load them
    afterwards, with `online load`.

    \b
    Examples:
      online adapt --state ./state
      online adapt --publish
      online adapt history.csv --label topic --model topics --publish
      online adapt --frozen
    """
    from online.telemetry import configure_logging

    if supervised:
        settings = read_parent_settings()
        configure_logging(settings.log_level, settings.log_format)
    else:
        settings = load_settings(config, state=state, store=store)
    keep_files_private()
    lower_priority()
    from online.errors import BadInput
    from online.evaluation.sources.column_choice import ColumnChoice
    from online.evaluation.sources.replay_source import ReadOptions
    from online.io.records import ReadLimits
    from online.models import can_tune_encoder
    from online.plugins.encoder_tuning.adoption import AdaptationRun
    from online.plugins.encoder_tuning.labelled_texts import read_labelled_texts

    def select() -> str:
        return select_model(settings, model, lambda spec: can_tune_encoder(spec.kind, spec.options)).name

    if not files:
        select()  # before a state folder is created, where the name of none was wrong
    run = run_silently if supervised else show_bar
    if files and frozen:
        raise BadInput("--frozen goes back to the original encoder, which needs no files: leave one of them out")
    columns, separator = ColumnChoice(tuple(drop or ()), tuple(feature or ())), parse_delimiter(delimiter)
    limits = ReadLimits.of(settings)
    reads = ReadOptions(format, label, max_bad_ratio=max_bad_ratio, limits=limits, columns=columns, delimiter=separator)
    rows = [*read_labelled_texts(files, reads, settings.max_text_chars)] if files else []
    with open_workspace(settings) as workspace:
        attempt = AdaptationRun(workspace, select(), rows=rows)
        outcome = run(lambda tick: attempt.go_back(tick) if frozen else attempt.run(publish, tick))
    typer.echo(json.dumps(outcome.as_dict()) if as_json else "\n".join(outcome.lines()))
