"""The commands of `online`, in the order in which the help lists them.

Nothing here imports torch, FastAPI, SQLAlchemy or river: a command imports what it needs when it
runs, so that the help and every refusal of a wrong option come at once.
"""

import os
from typing import Annotated

import typer

from online import __version__
from online.cli import config, learn, log, openapi, replay, serve, versions
from online.cli.access import audit, keys
from online.cli.access.erase import erase
from online.cli.groups import audit_app, keys_app, log_app
from online.cli.operating import load, merge, migrate
from online.errors import OnlineError
from online.installed import collect

app = typer.Typer(
    name="online",
    help="Serve a model that keeps learning while it serves. Without a command: serve.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve.serve)
app.command()(learn.learn)
app.command()(load.load)
app.command()(replay.replay)
app.add_typer(keys_app, name="keys")
keys_app.command()(keys.create)
keys_app.command("list")(keys.list_keys)
keys_app.command()(keys.revoke)
keys_app.command()(keys.rotate)
keys_app.command("rotate-signing")(keys.rotate_signing)
keys_app.command("share-signing")(keys.share_signing)
keys_app.command()(keys.scopes)
app.add_typer(audit_app, name="audit")
audit_app.command("list")(audit.list_entries)
audit_app.command()(audit.verify)
app.add_typer(log_app, name="log")
log_app.command()(log.export)
app.command("versions")(versions.list_versions)
app.command()(merge.merge)
app.command()(versions.rollback)
app.command()(versions.label)
app.command()(versions.freeze)
app.command()(versions.thaw)
app.command()(erase)
app.command()(migrate.migrate)
app.command()(config.config)
app.command()(openapi.openapi)
app.command("work", hidden=True)(serve.run_worker)
app.command("store", hidden=True)(serve.run_store_process)


collect("commands", app)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"online {__version__}")
    elif context.invoked_subcommand is None:
        serve.serve()


def main() -> None:
    """Run one command. An `OnlineError` is printed as one line on standard error and exit status 2."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for NumPy, whose products are small here
    try:
        app()
    except OnlineError as error:
        typer.echo(f"online: {error}", err=True)
        raise SystemExit(2) from None
