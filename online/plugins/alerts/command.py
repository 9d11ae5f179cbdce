"""`online alerts test`: send a test alert to the webhooks of the settings."""

import asyncio
import json
import uuid
from typing import Annotated

import typer

from online.cli.options import ConfigOption, JsonOption
from online.cli.state import load_settings

commands = typer.Typer(help="Alerts that are sent to webhooks.", no_args_is_help=True, rich_markup_mode=None)


@commands.command()
def test(
    model: Annotated[str, typer.Option("--model", help="The model that the alert names. Default: none.")] = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a test alert to every webhook of the settings, and print what each said. The service need not run.

    \b
    Example:
      online alerts test
    """
    from online.plugins.alerts.alerts import send_test

    results = asyncio.run(send_test(load_settings(config), model, uuid.uuid4().hex))
    if as_json:
        fields = [
            {"endpoint": endpoint.name, "status": attempt.status, "error": attempt.error, "answer": attempt.answer}
            for endpoint, attempt in results
        ]
        typer.echo(json.dumps({"endpoints": fields}, indent=1))
    else:
        for endpoint, attempt in results:
            typer.echo(
                f"{endpoint.name}: {attempt.error or 'accepted'} ({attempt.duration_ms:.0f} ms) {attempt.answer}"
            )
    if any(attempt.error for _, attempt in results):
        raise typer.Exit(1)
