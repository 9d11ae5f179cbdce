"""`online merge`: send the sums that a device has learned by itself to a running service, or take them back."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from online.cli.options import JsonOption
from online.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from online.client import Client, FeedbackStatus, Receipt

RETRIES = 3


def merge(
    model: Annotated[str, typer.Option("--model", help="Name of the model that learns them.")],
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="File of sums, as a learner or a model has written it.")
    ] = None,
    url: Annotated[str, typer.Option("--url", help="Of the running service.")] = "http://127.0.0.1:8000",
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            envvar="ONLINE_KEY",
            help="API key with the scopes feedback and teach. Better set ONLINE_KEY: process lists show flags.",
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", help="Whose sums they are, for a key that may name users.")
    ] = None,
    id: Annotated[
        str | None,
        typer.Option("--id", help="Of the feedback that they become. Default: sums- and digits of the file's sha256."),
    ] = None,
    take_back: Annotated[
        str | None, typer.Option("--take-back", metavar="ID", help="Subtract the sums with this id again.")
    ] = None,
    wait_s: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait until a version has learned or refused them.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Send what a device has learned by itself to a running service, without the examples it has learned from.

    FILE holds integer sums over the examples of the device: `Classifier.write_contribution()` in Python, or
    `learner.contribution()` in a browser. The service adds them to its own, and the model is the one that would have seen
    the examples itself. Only a classifier of texts, or of vectors with a declared scale, takes sums.

    The same file again has no second effect, unless another --id is given. --take-back subtracts the sums of an id, and leaves
    the model that has never had them. With --wait, sums that are refused are an error (status 1), with the reason.

    \b
    Examples:
      online merge phone.safetensors --model digits
      ONLINE_KEY=... online merge phone.safetensors --model digits --url https://models.example --wait 30
      online merge --take-back anns-phone --model digits
    """
    if (file is None) == (take_back is None):
        raise BadInput("name a file of sums to send, or an id with --take-back")
    with connect(url, model, user, key) as client:
        receipt = send(client, file, id) if file is not None else client.retract(str(take_back))
        outcome = find_outcome(client, receipt, wait_s) if wait_s else None
    status = receipt["status"] if outcome is None else outcome["status"]
    if as_json:
        typer.echo(json.dumps(receipt if outcome is None else outcome))
    else:
        typer.echo(f"{receipt['id']} of {model}, offset {receipt['offset']}: {status}")
    if outcome is not None and status not in ("learned", "retracted"):
        typer.echo(f"online: {outcome.get('reason') or f'not learned within {wait_s:g} s'}", err=True)
        raise typer.Exit(1)


@contextmanager
def connect(url: str, model: str, user: str | None, key: str | None) -> "Iterator[Client]":
    """A client, whose errors are those of a command. Raises BadInput and Unavailable."""
    import httpx

    from online.client import Client, ClientError

    try:
        with Client(url, model, user, key=key, retries=RETRIES) as client:
            yield client
    except ClientError as error:
        raise BadInput(f"{url} answered {error.status}: {error}") from None
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise Unavailable(f"no service answers at {url} ({error}); start it, or name it with --url") from None


def send(client: "Client", file: Path, id: str | None) -> "Receipt":
    """Raises BadInput for a file that cannot be read."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None
    return client.merge(data, id or f"sums-{hashlib.sha256(data).hexdigest()[:32]}")


def find_outcome(client: "Client", receipt: "Receipt", wait_s: float) -> "FeedbackStatus":
    """What became of sums, once a version has learned until their offset, or after `wait_s` seconds."""
    with suppress(TimeoutError):
        client.wait_until_learned(receipt["offset"], wait_s)
    return client.feedback_status(receipt["id"])
