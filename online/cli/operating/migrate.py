"""`online migrate`: bring the store to the schema of this version, before services of this version start."""

import json

import typer

from online.cli.options import ConfigOption, JsonOption, SetOption, StateOption, StoreOption
from online.cli.processes import keep_files_private
from online.cli.state import load_settings


def migrate(
    config: ConfigOption = None,
    state: StateOption = None,
    store: StoreOption = None,
    set: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring the store to the schema of this version, and print the revision of each group of tables.

    `online serve` does the same when it starts. Run this first where several services start at once, or where the schema must
    be ready before the first of them. Services of the version before go on meanwhile, and may start on the new schema. A step that one
    of them could not follow is refused, as is a store whose newer version does not let this one use it; then nothing is changed.

    \b
    Examples:
      online migrate --store postgresql+psycopg://user:password@db/online
      online migrate --config online.toml --json
    """
    keep_files_private()
    settings = load_settings(config, set, state=state, store=store)
    from online.store.database.schema import migrate_store

    if settings.store is None:
        settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    changes = migrate_store(settings.store_url)
    if as_json:
        typer.echo(json.dumps({change.tables: {"before": change.before, "now": change.now} for change in changes}))
        return
    width = max(len(change.tables) for change in changes)
    for change in changes:
        before = "" if change.before == change.now else f"   (before: {change.before or 'no tables'})"
        typer.echo(f"{change.tables:<{width}}   {change.now}{before}")
