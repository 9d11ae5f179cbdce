"""The commands of `online-adapters`. Each imports what it needs when it runs, so that the help comes at once."""

import os
import signal
import tempfile
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

import typer

from online.errors import BadInput, OnlineError
from online_adapters.adapter_folder import BASE, AdapterFolder

REFUSED = 3  # the exit status where the gate does not pass
app = typer.Typer(
    name="online-adapters",
    help="A local language model that learns from thumbs.\n\n\b\n"
    "1. serve     answer chats, as a route of the router\n"
    "2. fetch     write the router's answers and their ratings to a file\n"
    "3. learn     train an adapter on it; it comes into force where it is not worse\n"
    "4. activate  put another adapter in force, or none; list shows them\n\n"
    "The server follows within a second, without a restart and without a request that fails.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Model = Annotated[
    Path, typer.Option("--model", metavar="FOLDER", help="The base model: a local folder, tuned for chats.")
]
Adapters = Annotated[Path, typer.Option("--adapters", metavar="FOLDER", help="The adapters; created where missing.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1 ...; auto is a GPU where there is one.")]


@app.command()
def serve(
    model: Model,
    adapters: Adapters,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on. There are no keys: keep it local.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one, which is printed.")] = 8200,
    device: Device = "auto",
) -> None:
    """Serve OpenAI's chat completions with the adapter in force.

    The model's name is that of its folder. A request may name an adapter: "folder@adapter-0123456789abcdef". GET /healthz says
    what is in force. As a route of the router:

    \b
    [[models.routes]]
    name = "local"
    url = "http://127.0.0.1:8200/v1"
    model = "folder"
    """
    from online_adapters import server
    from online_adapters.adapted_model import AdaptedModel, choose_device

    folder = AdapterFolder(adapters)
    if (name := folder.read_active()) != BASE:
        folder.verify(name)
    adapted = AdaptedModel(model, folder, choose_device(device))
    server.serve(adapted, model.resolve().name, host, port)


@app.command()
def fetch(
    url: Annotated[str, typer.Option("--url", help="The service, such as http://127.0.0.1:8000.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file of JSON lines to write.")],
    model: Annotated[str, typer.Option("--model", help="The router.")] = "router",
    key: Annotated[str, typer.Option("--key", envvar="ONLINE_KEY", help="A key with the scope curate.")] = "",
) -> None:
    """Write the answers whose texts the router keeps, with their ratings."""
    from online_adapters.fetching import fetch_answers

    print(f"{fetch_answers(url, model, out, key)} answers written to {out}")


@app.command()
def learn(
    data: Annotated[
        Path, typer.Option("--data", metavar="FILE", help='JSON lines {"question", "answer", "reward", "taught"}.')
    ],
    model: Model,
    adapters: Adapters,
    method: Annotated[
        Literal["sft", "kto", "both"],
        typer.Option("--method", help="sft imitates taught and liked answers; kto learns from thumbs of both kinds."),
    ] = "both",
    golden: Annotated[
        Path | None,
        typer.Option("--golden", metavar="FILE", help='JSON lines {"question", "must_contain", "wrong"} for the gate.'),
    ] = None,
    held_out: Annotated[
        float, typer.Option("--held-out", min=0.0, max=0.9, help="Share of the questions that only the gate reads.")
    ] = 0.2,
    most_lost: Annotated[
        float, typer.Option("--most-lost", min=0.0, help="Nats by which a wrong opinion may turn an answer further.")
    ] = 0.1,
    epochs: Annotated[float, typer.Option("--epochs", min=0.0, help="How often each line is read.")] = 1.0,
    rate: Annotated[float, typer.Option("--rate", min=0.0, help="The learning rate of sft.")] = 1e-4,
    thumbs_rate: Annotated[float, typer.Option("--thumbs-rate", min=0.0, help="The learning rate of kto.")] = 2e-5,
    rank: Annotated[int, typer.Option("--rank", min=1, help="The rank of a first adapter; later ones keep it.")] = 16,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Lines of a step; kto takes at least 2.")] = 4,
    max_length: Annotated[
        int,
        typer.Option(
            "--max-length", min=8, help="Tokens of a question with its answer; longer ones are left out, and counted."
        ),
    ] = 1024,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the order and of a first adapter.")] = 0,
    device: Device = "auto",
) -> None:
    """Train an adapter from the one in force, and put it in force where it is not worse.

    Taught answers, and those with a reward of at least 0.5, are imitated; thumbs down teach what not to say. The gate reads questions
    that were not learned: liked answers must not lose to disliked ones, golden questions must stay right, and a wrong opinion in
    the question must not turn the answer. Where it does not pass, the adapter stays in the folder, and the exit status is 3.

    An interrupted training leaves nothing behind.
    """
    from online_adapters import gate, rated_lines
    from online_adapters.adapted_model import AdaptedModel, choose_device
    from online_adapters.training import TrainingOptions, train

    folder, device = AdapterFolder(adapters), choose_device(device)
    lines = rated_lines.read_lines(data, rated_lines.RatedLine)
    questions = rated_lines.read_lines(golden, rated_lines.GoldenLine) if golden is not None else []
    learned = rated_lines.sort_lines([line for line in lines if not rated_lines.is_held_out(line.question, held_out)])
    judged = rated_lines.sort_lines([line for line in lines if rated_lines.is_held_out(line.question, held_out)])
    if count := learned.skipped + judged.skipped:
        print(f"{count} of {len(lines)} lines are neither rated nor taught, or have no text, and are not read")
    old = folder.read_active()
    start = None if old == BASE else folder.verify(old)
    options = TrainingOptions(method, epochs, rate, thumbs_rate, rank, batch_size, max_length, seed)
    with tempfile.TemporaryDirectory(prefix="online-adapters-") as temporary:
        new = folder.add(train(model, start, learned, Path(temporary), options, device))
    adapted = AdaptedModel(model, folder, device)
    before, after = (gate.measure(adapted, name, judged, questions) for name in (old, new))
    gate.print_table(old, new, before, after)
    if reasons := gate.judge(before, after, most_lost):
        print(f"{new} is not in force: {'; '.join(reasons)}")
        raise typer.Exit(REFUSED)
    folder.activate(new)
    print(f"{new} is in force")


@app.command()
def activate(
    adapters: Adapters,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The adapter.")] = "",
    none: Annotated[bool, typer.Option("--none", help="Put the base model in force, without an adapter.")] = False,
) -> None:
    """Put an adapter in force. A server follows within a second."""
    if none == bool(name):
        raise BadInput("give the name of an adapter, or --none; online-adapters list shows the names")
    AdapterFolder(adapters).activate(name)
    print(f"{name or 'the base model'} is in force")


@app.command("list")
def list_adapters(adapters: Adapters) -> None:
    """List the adapters, the oldest first. A star marks the one in force."""
    folder = AdapterFolder(adapters)
    active = folder.read_active()
    for name in (BASE, *folder.list_names()):
        print(f"{'*' if name == active else ' '} {name or 'base model'}")


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, so that temporary files are removed."""
    raise KeyboardInterrupt


def main() -> None:
    """Run a command. An `OnlineError` is printed as one line on standard error and exit status 2."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    signal.signal(signal.SIGTERM, interrupt)
    try:
        app()
    except ModuleNotFoundError as error:
        typer.echo(f"online-adapters: the package {error.name!r} is missing: pip install online-adapters", err=True)
        raise SystemExit(2) from None
    except OnlineError as error:
        typer.echo(f"online-adapters: {error}", err=True)
        raise SystemExit(2) from None
