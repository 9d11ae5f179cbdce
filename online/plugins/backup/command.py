"""`online backup` and `online restore`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from online.cli.options import ConfigOption, JsonOption, SetOption, StateOption, StoreOption
from online.cli.progress import show_bar
from online.cli.state import load_settings
from online.errors import BadInput

if TYPE_CHECKING:
    from online.plugins.backup.archive import BackupManifest
    from online.settings import Settings

KEYS_WARNING = "the file holds the signing keys of this service: who has it can sign links, sessions and model states; keep it as secret as a password"
NO_KEYS = (
    "the signing keys are not in the file: after a restore there are new ones, so that people sign in again, shared links end, and states of river "
    "are learned again. Use --with-keys for a copy of them"
)


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write, such as monday.tar.zst.")],
    with_keys: Annotated[
        bool,
        typer.Option(
            "--with-keys", help="Also copy the signing keys (keys.json). The file is as secret as they are then."
        ),
    ] = False,
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    set: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the store, the newest versions and the tuned encoders to one file, while the service runs.

    The file has one moment of the store. It is checked by hash when it is restored. With Postgres it is the same on every replica, and the
    signing keys in the store go with it, encrypted as they are there (ONLINE_SECRET is not in the file).

    \b
    Examples:
      online backup monday.tar.zst
      online backup /backups/monday.tar.zst --with-keys
    """
    from online.plugins.backup.backing_up import write_backup

    settings = load_settings(config, set, state=state, store=store)
    manifest = show_bar(lambda tick: write_backup(settings, file, with_keys, tick))
    if with_keys and manifest.has_keys:
        typer.echo(f"online: {KEYS_WARNING}", err=True)
    elif is_local(settings):
        typer.echo(f"online: {NO_KEYS}", err=True)
    show(file, manifest, "written", as_json)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File that `online backup` has written.")],
    until: Annotated[
        list[str] | None,
        typer.Option(
            "--until",
            metavar="[MODEL=]OFFSET",
            help="Leave out what follows this offset of a model's log. Repeatable. The model may be left out if the backup has only one.",
        ),
    ] = None,
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    set: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Restore a backup into an empty store and an empty state folder.

    Everything in the file is verified before anything is changed. A store or a folder that is not empty is refused. Start the service
    afterwards: it learns what follows the newest version in the backup, and has the same state, by hash, as the service had at that offset.

    \b
    Examples:
      online restore monday.tar.zst --state ./restored
      online restore monday.tar.zst --until chat=12000
    """
    from online.plugins.backup.restoring import restore_backup

    settings = load_settings(config, set, state=state, store=store)
    cuts = parse_cuts(file, until or [])
    manifest = show_bar(lambda tick: restore_backup(settings, file, cuts, tick))
    show(file, manifest, f"restored into {settings.state} and the store", as_json, cuts)


def is_local(settings: "Settings") -> bool:
    """Return whether the signing keys are those of the state folder only, and not in the store."""
    return settings.store_url.startswith("sqlite") or settings.secret is None


def parse_cuts(file: Path, given: list[str]) -> dict[str, int]:
    """Return model -> offset. Raises BadInput for another form, or where the model is not clear."""
    cuts = dict[str, int]()
    for each in given:
        model, _, offset = each.rpartition("=")
        if not offset.isdecimal():
            raise BadInput(f"--until {each}: write it as OFFSET or MODEL=OFFSET, such as chat=12000")
        cuts[model or find_only_model(file, each)] = int(offset)
    return cuts


def find_only_model(file: Path, given: str) -> str:
    """Return the model of a backup that has one. Raises BadInput."""
    from online.plugins.backup.archive import verify_archive

    models = sorted(verify_archive(file, lambda what, done, total: None).models)
    if len(models) != 1:
        raise BadInput(
            f"--until {given}: the backup has the models {', '.join(models) or '(none)'}; write MODEL=OFFSET"
        )
    return models[0]


def show(file: Path, manifest: "BackupManifest", done: str, as_json: bool, cuts: dict[str, int] | None = None) -> None:
    """Print what a backup has, and what was done with it."""
    heads = {model: (cuts or {}).get(model, saved.head) for model, saved in sorted(manifest.models.items())}
    rows = sum(each.rows for each in manifest.tables.values())
    if as_json:
        facts = {
            "file": str(file),
            "created_at": manifest.created_at,
            "rows": rows,
            "until": heads,
            "has_keys": manifest.has_keys,
        }
        typer.echo(json.dumps(facts))
        return
    typer.echo(
        f"{file} {done}: {rows:,} rows, {len(manifest.sha256):,} members verified by sha256"
        if cuts is not None
        else f"{file} {done}: {rows:,} rows, {len(manifest.sha256):,} members, {file.stat().st_size / 1e6:.1f} MB"
    )
    for model, saved in sorted(manifest.models.items()):
        newest = next((each for each in saved.versions if each[1] <= heads[model]), None)
        version = (
            "" if newest is None else f", version {newest[0]} learned until {newest[1]:,} (state {newest[2][:12]})"
        )
        typer.echo(f"  {model}: log until {heads[model]:,}{version}")
