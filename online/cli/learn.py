"""`online learn`: the learner without a service, or a worker of a learner."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from online.cli.options import (
    ConfigOption,
    DeviceOption,
    ModelsOption,
    SetOption,
    StateOption,
    StoreOption,
    StreamOption,
    SupervisedOption,
)
from online.cli.processes import exit_on_sigterm, keep_files_private, read_parent_settings
from online.cli.state import load_own_settings

if TYPE_CHECKING:
    from online.state.workspace import Workspace


JoinOption = Annotated[
    str | None,
    typer.Option("--join", metavar="HOST:PORT", help="Sum parts of the log for the learner that listens there."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        max=256,
        help="Processes that learn parts of a log or of a tower's steps for the learner. Default: 0.",
    ),
]


def learn(
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    stream: StreamOption = None,
    device: DeviceOption = None,
    workers: WorkersOption = None,
    join: JoinOption = None,
    models: ModelsOption = None,
    set: SetOption = None,
    supervised: SupervisedOption = False,
) -> None:
    """Run the learner without a service.

    It learns for services that were started with --no-learner on the same state folder.

    With --workers, other processes sum parts of a log that is long: after an import, say. They also learn parts of
    the steps of towers whose option accumulate is more than 1. With --join, this process is such a worker, on this
    machine or another one that reaches the same store. Workers come and go at any time; what is learned is the same,
    to the last bit, or within rounding where they hold parts of a tower (option parallel).

    \b
    Examples:
      online learn --state ./state --device cuda
      online learn --state ./state --workers 4
      ONLINE_WORKERS_KEY=... online learn --join learner.example:7000 --store postgresql://...
      torchrun --standalone --nproc-per-node 4 --no-python online learn --state ./state
    """
    from online.learning.workers import find_support
    from online.state.workspace import Workspace
    from online.telemetry import configure_logging

    support = find_support()
    exit_on_sigterm()
    keep_files_private()
    if supervised:
        settings = read_parent_settings()
    else:
        flags = {"state": state, "store": store, "stream": stream, "device": device, "learn_workers": workers}
        settings = load_own_settings(config, models, set, **flags)
    configure_logging(settings.log_level, settings.log_format)
    if join is None and not supervised:
        settings, join = support.find_place(settings, os.environ)
    workspace = Workspace(settings)
    if join is not None:
        raise typer.Exit(run_worker(workspace, join))
    # before torch is imported: the learner of a second service may wait for the lock for long
    lock = workspace.lock_learner(wait=supervised)
    from online.learning.process import run

    raise typer.Exit(run(workspace, lock))


def run_worker(workspace: "Workspace", address: str) -> int:
    """Sum parts of logs for the learner at an address, until that lets this process go."""
    from online.learning.workers import find_support

    count = find_support().join(workspace, address)
    typer.echo(f"summed {count:,} {'range' if count == 1 else 'ranges'} of the log", err=True)
    return 0
