"""`online openapi`: the description of the HTTP API."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from online.settings import Settings


def openapi() -> None:
    """Print the OpenAPI document of the HTTP API.

    \b
    Example:
      online openapi > openapi.json
    """
    from online.api.app import create_app

    with TemporaryDirectory() as folder:
        app = create_app(Settings(state=Path(folder)), with_learner=False)
        typer.echo(json.dumps(app.openapi(), indent=1))
        app.state.runtime.workspace.store.close()
