"""`online versions`, `rollback`, `label`, `freeze`, `thaw`: list and direct the snapshots of a model."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from online.cli.options import ConfigOption, JsonOption, ModelOption, StateOption
from online.cli.state import load_settings, open_snapshots, open_workspace, record_locally, select_model
from online.errors import SetupError
from online.schemas.json_values import JSONObject

if TYPE_CHECKING:
    from online.snapshots import Snapshots


def list_versions(
    model: ModelOption = None,
    state: StateOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    forget: Annotated[
        bool, typer.Option("--forget-set-aside", help="First delete the versions that were learned from another log.")
    ] = False,
) -> None:
    """List the kept versions of a model, newest first. The live one has an asterisk.

    \b
    Examples:
      online versions --model chat
      online versions --model chat --forget-set-aside
    """
    snapshots = open_snapshots(load_settings(config, state=state), model)
    if forget:
        snapshots.aside.forget()
    versions, frozen, aside = describe_versions(snapshots), snapshots.control.frozen(), snapshots.aside.find()
    if as_json:
        content = {"versions": versions, "frozen": frozen and asdict(frozen), "set_aside": aside and asdict(aside)}
        typer.echo(json.dumps(content))
        return
    for version in versions:
        typer.echo(format_version(version))
    if frozen is not None:
        typer.echo(
            f"frozen since {frozen.since[:19]}: nothing is learned until `online thaw`. {frozen.reason}".rstrip()
        )
    if aside is not None:
        since = ", and deleted by an erasure" if aside.deleted else ""
        typer.echo(f"{len(aside.versions)} versions were set aside at {aside.at[:19]}{since}: {aside.reason}")


def describe_versions(snapshots: "Snapshots") -> list[dict[str, object]]:
    """Return the versions of a model for `online versions`."""
    from online.snapshots.manifest import describe_version

    live, labels = snapshots.folder.live(), snapshots.labels.names()
    return [
        describe_version(
            manifest, live is not None and manifest.version == live.version, labels.get(manifest.version, ())
        )
        for manifest in snapshots.folder.manifests()
    ]


def format_version(version: JSONObject) -> str:
    """Return a version as one line; `*` marks the live one."""
    from online.models.wrappers import describe_figures

    mark = "*" if version["live"] else " "
    labels = f"  {', '.join(version['labels'])}" if version["labels"] else ""
    comparison = f"  {text}" if (text := describe_figures(version["metrics"])) else ""
    return (
        f"{mark} {version['version']:>6}  learned until {version['learned_until']:<8} {version['created_at'][:19]}"
        f"  {version['state_sha256'][:12]}{labels}{comparison}"
    )


def rollback(
    version: Annotated[str, typer.Argument(help="Version to make live: its number or a label.")] = "previous",
    model: ModelOption = None,
    state: StateOption = None,
    config: ConfigOption = None,
) -> None:
    """Make an older version live.

    Learning continues from there, and publishes again at the next event.

    \b
    Examples:
      online rollback
      online rollback 12
      online rollback stable
    """
    from online.models import recipe
    from online.state.version_control import VersionControl

    settings = load_settings(config, state=state)
    spec = select_model(settings, model)
    with open_workspace(settings) as workspace:
        snapshots = workspace.snapshots(spec.name)
        manifest = VersionControl(snapshots, workspace.store).roll_back(
            snapshots.labels.resolve(version), recipe(spec.kind, workspace.options(spec))
        )
    record_locally(settings, "roll_back", spec.name, f"version {manifest.version}")
    typer.echo(f"{manifest.model} answers from version {manifest.version}, learned until {manifest.learned_until}")


def label(
    name: Annotated[str, typer.Argument(help="The label, in letters, digits and '_': stable, canary, ...")],
    version: Annotated[str | None, typer.Argument(help="The version: its number or another label.")] = None,
    percent: Annotated[
        float, typer.Option("--percent", min=0, max=100, help="For canary: its share of the traffic, in percent.")
    ] = 0,
    drop: Annotated[bool, typer.Option("--drop", help="Remove the label.")] = False,
    model: ModelOption = None,
    state: StateOption = None,
    config: ConfigOption = None,
) -> None:
    """Label a version: it is kept, and requests can name it. A running service follows at once.

    \b
    Examples:
      online label stable 12
      online label canary latest --percent 5
      online label stable --drop
    """
    from online.snapshots.labels import LabelTarget
    from online.state.version_control import VersionControl

    settings = load_settings(config, state=state)
    if drop == (version is not None):
        raise SetupError("name the version that gets the label, or use --drop")
    with open_workspace(settings) as workspace:
        snapshots = workspace.snapshots(select_model(settings, model).name)
        versions = VersionControl(snapshots, workspace.store)
        target = None if version is None else LabelTarget(snapshots.labels.resolve(version), percent)
        if target is None:
            versions.delete_label(name)
        else:
            versions.set_label(name, target)
    if target is None:
        record_locally(settings, "delete_version_label", snapshots.model, label=name)
        typer.echo(f"the label {name} of {snapshots.model} is removed")
        return
    record_locally(settings, "label_version", snapshots.model, f"version {target.version}", label=name, percent=percent)
    share = f", for {percent:g} % of the traffic" if percent else ""
    typer.echo(f"version {target.version} of {snapshots.model} is {name}{share}")


def freeze(
    reason: Annotated[str, typer.Option("--reason", help="Shown to everyone who asks for the status.")] = "",
    model: ModelOption = None,
    state: StateOption = None,
    config: ConfigOption = None,
) -> None:
    """Stop learning until `online thaw`. Feedback is still accepted, and waits in the log.

    \b
    Example:
      online freeze --model chat --reason "labels are being reviewed"
    """
    from online.snapshots.roll_back import Freeze
    from online.state.version_control import VersionControl
    from online.store import now

    settings = load_settings(config, state=state)
    with open_workspace(settings) as workspace:
        snapshots = workspace.snapshots(select_model(settings, model).name)
        VersionControl(snapshots, workspace.store).freeze(Freeze(now(), reason))
    record_locally(settings, "freeze", snapshots.model)
    typer.echo(f"{snapshots.model} is frozen; after `online thaw` it learns the feedback that arrives until then")


def thaw(model: ModelOption = None, state: StateOption = None, config: ConfigOption = None) -> None:
    """End a freeze: learn the feedback that has arrived, and continue.

    \b
    Example:
      online thaw --model chat
    """
    from online.models import recipe
    from online.state.version_control import VersionControl
    from online.store.quarantine import load_open

    settings = load_settings(config, state=state)
    spec = select_model(settings, model)
    with open_workspace(settings) as workspace:
        if workspace.store.read(lambda connection: load_open(connection, spec.name)) is not None:
            raise SetupError(
                f"the rollback guard froze {spec.name}: review it on the page, or at /v1/models/{spec.name}/quarantine"
            )
        versions = VersionControl(workspace.snapshots(spec.name), workspace.store)
        versions.thaw(recipe(spec.kind, workspace.options(spec)))
    record_locally(settings, "thaw", spec.name)
    typer.echo(f"{spec.name} learns again")
