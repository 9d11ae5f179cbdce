"""`online merge`: send the sums that a device has learned by itself to a running service, or take them back."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from online.cli.options import JsonOption
from online.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from online.client import Client, FeedbackStatus, Receipt

RETRIES = 3
PAUSE_S = 0.1  # between two requests for an outcome that is decided but not written yet


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
        float,
        typer.Option("--wait", min=0, help="Seconds to wait until a version has learned, refused or un-learned them."),
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Send what a device has learned by itself to a running service, without the examples it has learned from.

    FILE holds integer sums over the examples of the device: `Classifier.write_contribution()` in Python, or
    `learner.contribution()` in a browser. The service adds them to its own, and the model is the one that would have seen
    the examples itself. Only a classifier of texts, or of vectors with a declared scale, takes sums.

    The same file again has no second effect, unless another --id is given. --take-back subtracts the sums of an id, and leaves
    the model that has never had them. To send sums that were taken back again is an error (status 1): give another --id. With
    --wait, sums that are refused, or that no version has learned or un-learned in this time, are an error as well.

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
        outcome, problem = follow(client, receipt, take_back is not None, wait_s)
    if as_json:
        typer.echo(json.dumps(outcome))
    else:
        typer.echo(f"{outcome['id']} of {model}, offset {outcome['offset']}: {outcome['status']}")
    if problem:
        typer.echo(f"online: {problem}", err=True)
        raise typer.Exit(1)


@contextmanager
def connect(url: str, model: str, user: str | None, key: str | None) -> "Iterator[Client]":
    """Yield a client, whose errors are those of a command. Raises BadInput and Unavailable."""
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
    """Send the file, or its retraction. Raises BadInput for a file that cannot be read."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None
    return client.merge(data, id or f"sums-{hashlib.sha256(data).hexdigest()[:32]}")


def follow(
    client: "Client", receipt: "Receipt", is_taken_back: bool, wait_s: float
) -> "tuple[FeedbackStatus | Receipt, str]":
    """Return what became of sums within `wait_s` seconds, and why that is not what was asked for; "" if it is."""
    outcome: FeedbackStatus | Receipt = receipt
    if wait_s and is_expected(receipt, is_taken_back):
        try:
            outcome = wait_for_outcome(client, receipt, wait_s)
        except TimeoutError:
            return receipt, f"no version has learned offset {receipt['offset']} within {wait_s:g} s"
    return outcome, find_problem(outcome, is_taken_back)


def wait_for_outcome(client: "Client", receipt: "Receipt", wait_s: float) -> "FeedbackStatus":
    """Return what became of sums, once a version has learned their offset, or that of their retraction. Raises TimeoutError.

    Of several workers, the one that answers may serve the version before the first worker has written the outcome.
    """
    end = time.monotonic() + wait_s
    client.wait_until_learned(receipt["offset"], wait_s)
    while (outcome := client.feedback_status(receipt["id"]))["status"] == "accepted":
        if time.monotonic() >= end:
            raise TimeoutError
        time.sleep(PAUSE_S)
    return outcome


def is_expected(outcome: "FeedbackStatus | Receipt", is_taken_back: bool) -> bool:
    """Return whether a merge of sums, or its retraction, went through."""
    return outcome["status"] in (("retracted",) if is_taken_back else ("accepted", "learned"))


def find_problem(outcome: "FeedbackStatus | Receipt", is_taken_back: bool) -> str:
    """Return why the command has not done what it was asked for; empty if it has."""
    if is_expected(outcome, is_taken_back):
        return ""
    if outcome["status"] == "retracted":
        return f"the sums {outcome['id']!r} were taken back and are not learned again; to send them again, give another --id"
    return str(outcome.get("reason") or f"the sums {outcome['id']!r} are {outcome['status']}")
