"""`online erase`: erase a user from a stopped state folder, or check the statement of an erasure."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from online.cli.options import ConfigOption, StateOption, StoreOption, StreamOption
from online.cli.processes import keep_files_private
from online.cli.state import load_settings, open_workspace
from online.errors import BadInput, SetupError

if TYPE_CHECKING:
    from online.state.workspace import Workspace


def erase(
    user: Annotated[str | None, typer.Argument(help="The user, as predictions and feedback name them.")] = None,
    verify: Annotated[
        Path | None, typer.Option("--verify", help="Check the signature of this statement, and erase nobody.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", help="File for the statement. Default: print it.")] = None,
    state: StateOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    stream: StreamOption = None,
) -> None:
    """Erase a user from every model of a stopped service, and print the signed statement.

    All that they taught is un-learned, and nothing of them is left in the state folder, the database and Redis. Beside a
    service use DELETE /v1/users/{user} instead. An erasure that was interrupted is continued, by this command or by the
    service at its next start.

    \b
    Examples:
      online erase anna --output statement.json
      online erase --verify statement.json
    """
    settings = load_settings(config, state=state, store=store, stream=stream)
    keep_files_private()
    if not settings.state.exists():
        raise SetupError(f"there is no state folder {settings.state}; name the right one with --state")
    if (user is None) == (verify is None) or user == "":
        raise BadInput("name a user to erase, or a statement with --verify")
    with open_workspace(settings) as workspace:
        if verify is not None:
            check_file(workspace, verify)
            typer.echo(f"{verify} is a statement of this state folder, and is unchanged", err=True)
            return
        workspace.check_keys()
        from online.cli.access.stopped_service import erase_now, lock_state  # imports torch

        with lock_state(workspace):
            statement = json.dumps(erase_now(workspace, user or ""), indent=1)
    if output is not None:
        output.write_text(f"{statement}\n")
    else:
        typer.echo(statement)


def check_file(workspace: "Workspace", path: Path) -> None:
    """Raise BadInput for a statement that is not one of this state folder."""
    from online.serving.erasure.statement import check_statement

    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read as JSON: {error}") from None
    check_statement(workspace.keys, content.get("statement", content) if isinstance(content, dict) else content)
