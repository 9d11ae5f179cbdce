"""`online learn`: the learner without a service."""

import typer

from online.cli.options import (
    ConfigOption,
    DeviceOption,
    SetOption,
    StateOption,
    StoreOption,
    StreamOption,
    SupervisedOption,
)
from online.cli.processes import exit_on_sigterm, keep_files_private, read_parent_settings
from online.cli.state import load_settings


def learn(
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    stream: StreamOption = None,
    device: DeviceOption = None,
    set: SetOption = None,
    supervised: SupervisedOption = False,
) -> None:
    """Run the learner without a service.

    It learns for services that were started with --no-learner on the same state folder.

    \b
    Example:
      online learn --state ./state --device cuda
    """
    from online.telemetry import configure_logging
    from online.workspace import Workspace

    exit_on_sigterm()
    keep_files_private()
    if supervised:
        settings = read_parent_settings()
    else:
        settings = load_settings(config, set, state=state, store=store, stream=stream, device=device)
    configure_logging(settings.log_level, settings.log_format)
    workspace = Workspace(settings)
    # before torch is imported: the learner of a second service may wait for the lock for long
    lock = workspace.lock_learner(wait=supervised)
    from online.learning.process import run

    raise typer.Exit(run(workspace, lock))
