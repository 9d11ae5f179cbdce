"""The groups of commands: `online keys ...`, `online audit ...`, `online log ...`. Plugins add commands to them."""

import typer

keys_app = typer.Typer(
    help="API keys: who may call the service, and what for.", no_args_is_help=True, rich_markup_mode=None
)
audit_app = typer.Typer(
    help="The audit log: who changed what is served and learned.", no_args_is_help=True, rich_markup_mode=None
)
log_app = typer.Typer(help="Read the log of a state folder.", no_args_is_help=True, rich_markup_mode=None)
