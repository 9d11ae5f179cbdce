"""Load the settings, select the model, and open the state folder.

Each raises SetupError with a remedy.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from online.errors import OnlineError, SetupError
from online.settings import ModelSettings, Settings, load

if TYPE_CHECKING:
    from online.snapshots import Snapshots
    from online.state.workspace import Workspace


def load_settings(config: Path | None, assignments: Sequence[str] | None = None, **flags: object) -> Settings:
    """Return the settings in force.

    assignments, flags: those given on the command line; None means not given.
    """
    with refuse_invalid_settings():
        return load(config, assignments or (), list_model_options, **flags)


def load_own_settings(
    config: Path | None, models: str | None, assignments: Sequence[str] | None = None, **flags: object
) -> Settings:
    """Return the settings in force, with the models only that this replica owns. models: the value of `--models`."""
    own = None if models is None else tuple(filter(None, map(str.strip, models.split(","))))
    settings = load_settings(config, assignments, own_models=own, **flags)
    with refuse_invalid_settings():
        return settings.select_own()


def list_model_options() -> dict[str, list[str]]:
    """Return every option of a model, with the kinds that have it. Slow: only an error needs it."""
    from online.models.registry import list_options

    return list_options()


@contextmanager
def refuse_invalid_settings() -> Iterator[None]:
    """Turn a ValueError inside the block into a SetupError."""
    try:
        yield
    except ValueError as error:
        raise SetupError(str(error)) from None


def select_model(
    settings: Settings, name: str | None, fits: Callable[[ModelSettings], bool] = lambda _: True
) -> ModelSettings:
    """Return the model called `name`, or without a name the only one that fits.

    The state folder must exist.
    """
    if not settings.state.exists():
        raise SetupError(f"there is no state folder {settings.state}; name the right one with --state")
    fitting = [model for model in settings.models if fits(model)] or list(settings.models)
    if name is None and len(fitting) == 1:
        return fitting[0]
    model = settings.model(name) if name is not None else None
    if model is None:
        missing = f"there is no model {name!r}; " if name is not None else ""
        raise SetupError(f"{missing}name the model with --model: {', '.join(each.name for each in settings.models)}")
    return model


@contextmanager
def open_workspace(settings: Settings) -> Iterator["Workspace"]:
    """Yield the state folder with its store, which is closed at the end. What the command has created there is private."""
    from online.io.private import make_private
    from online.state.workspace import Workspace

    workspace = Workspace(settings)
    try:
        yield workspace
    finally:
        workspace.store.close()
        make_private(workspace.state)


def record_locally(settings: Settings, action: str, model: str, target: str | None = None, **details: object) -> None:
    """Append what a command did to the audit log. A store that cannot be reached is reported, and delays nothing."""
    from online.store.callers.audit import AuditEntry

    try:
        with open_workspace(settings) as workspace:
            workspace.audit.record(AuditEntry("local", action, model=model, target=target, details=details))
    except OnlineError as error:
        typer.echo(f"online: this is not in the audit log: {error}", err=True)


def open_snapshots(settings: Settings, model: str | None) -> "Snapshots":
    """Return the snapshots of one model, without opening the store."""
    from online.state.workspace import snapshots_in

    return snapshots_in(settings, select_model(settings, model).name)
