"""`online audit`: list the entries of the audit log, and verify that none was changed."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from online.cli.options import ConfigOption, JsonOption, StateOption, StoreOption
from online.cli.state import load_settings, open_workspace
from online.errors import SetupError

if TYPE_CHECKING:
    from online.store.callers.audit import AuditRow


def list_entries(
    count: Annotated[int, typer.Option("--count", min=1, max=100_000, help="How many of the newest entries.")] = 50,
    user: Annotated[
        str | None, typer.Option("--user", help="Only what this user or visitor did: the log has a pseudonym.")
    ] = None,
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest entries of the audit log, the oldest of them first.

    \b
    Examples:
      online audit list --count 200
      online audit list --user alice@example.com --json
    """
    from online.schemas.access.callers import PERSON_KINDS
    from online.store.callers.audit import load_audit

    with open_workspace(load_settings(config, state=state, store=store)) as workspace:
        actors = (
            []
            if user is None
            else [f"{kind}:{each}" for kind in PERSON_KINDS for each in workspace.audit.pseudonyms(user)]
        )
        rows = list(reversed(workspace.store.read(lambda connection: load_audit(connection, count, actors=actors))))
    if as_json:
        entries = [{**row.model_dump(), "details": json.loads(row.details)} for row in rows]
        typer.echo(json.dumps({"entries": entries}, indent=1))
        return
    for row in rows:
        typer.echo(describe(row))
    if not rows:
        typer.echo("the audit log has no entries")


def describe(row: "AuditRow") -> str:
    """Return an entry of the audit log as one line."""
    sender = f"{row.actor} from {row.address}" if row.address else row.actor
    details = " ".join(f"{name}={value}" for name, value in json.loads(row.details).items())
    parts = [str(row.id), row.at, sender, row.action, row.model or "", row.target or "", details]
    return "  ".join(part for part in parts if part)


def verify(state: StateOption = None, config: ConfigOption = None, store: StoreOption = None) -> None:
    """Check that no entry of the audit log was changed, removed or inserted, and print its head.

    Keep the head elsewhere from time to time: it proves everything before it. Status 2: the log is broken.

    \b
    Example:
      online audit verify --state ./state
    """
    with open_workspace(load_settings(config, state=state, store=store)) as workspace:
        head, broken = workspace.audit.verify()
    if broken is not None:
        raise SetupError(f"the audit log is broken at entry {broken.id}: {broken.reason}")
    typer.echo(f"{head.id} entries, none was changed; head: {head.id} {head.digest or '-'}")
