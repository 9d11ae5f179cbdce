"""`online adapt`: tune the text encoder of a model on the feedback it has received."""

import json
from typing import Annotated

import typer

from online.cli.options import ConfigOption, JsonOption, ModelOption, StateOption, StoreOption, SupervisedOption
from online.cli.processes import keep_files_private, lower_priority, read_parent_settings
from online.cli.progress import run_silently, show_bar
from online.cli.state import load_settings, open_workspace, select_model


def adapt(
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

    \b
    Examples:
      online adapt --state ./state
      online adapt --publish
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
    from online.learning.encoder_tuning.adoption import AdaptationRun
    from online.models import can_tune_encoder

    name = select_model(settings, model, lambda spec: can_tune_encoder(spec.kind, spec.options)).name
    run = run_silently if supervised else show_bar
    with open_workspace(settings) as workspace:
        attempt = AdaptationRun(workspace, name)
        outcome = run(lambda tick: attempt.go_back(tick) if frozen else attempt.run(publish, tick))
    typer.echo(json.dumps(outcome.as_dict()) if as_json else "\n".join(outcome.lines()))
