"""The command line: serve (the default), learn, replay, evaluate, log export, versions, rollback, adapt, openapi."""

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeVar

import typer

from online import __version__
from online.errors import OnlineError, SetupError
from online.settings import Device, Drift, Settings
from online.settings import load as load_settings

if TYPE_CHECKING:
    from online.evaluation.race import Result
    from online.evaluation.replay import Contender, Span
    from online.evaluation.sources import Source
    from online.learning.adapting import Tick
    from online.snapshots import Snapshots
    from online.workspace import Workspace

T = TypeVar("T")

app = typer.Typer(
    name="online",
    help="A service for a model that keeps learning while it serves. Without a verb: serve.",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
log_app = typer.Typer(help="The service's own log.", no_args_is_help=True)
app.add_typer(log_app, name="log")

ConfigFlag = Annotated[
    Optional[Path], typer.Option("--config", help="TOML file of settings; default: ./online.toml where it exists")
]
StateFlag = Annotated[Optional[Path], typer.Option("--state", help="folder that holds everything; default: ./state")]
StoreFlag = Annotated[
    Optional[str], typer.Option("--store", help="SQLAlchemy URL; default: SQLite in the state folder")
]
StreamFlag = Annotated[Optional[str], typer.Option("--stream", help="redis:// URL; default: the store itself")]
DeviceFlag = Annotated[Optional[str], typer.Option("--device", help="auto, cpu or cuda: where the learner computes")]
HostFlag = Annotated[Optional[str], typer.Option("--host", help="address to listen on; default: 127.0.0.1")]
PortFlag = Annotated[Optional[int], typer.Option("--port", help="port to listen on; 0 takes a free one; default: 8000")]
EncoderAdaptFlag = Annotated[
    Optional[bool],
    typer.Option("--encoder-adapt/--no-encoder-adapt", help="tune text encoders beside the service; default: not"),
]
LearnerFlag = Annotated[bool, typer.Option("--learner/--no-learner", help="run a learner beside the service")]
JsonFlag = Annotated[bool, typer.Option("--json", help="print one JSON object, for machines")]
ModelName = Annotated[Optional[str], typer.Option("--model", help="the model's name; default: the only one")]
VersionFlag = Annotated[bool, typer.Option("--version", help="print the version and leave")]


@app.callback(invoke_without_command=True)
def root(context: typer.Context, version: VersionFlag = False) -> None:
    if version:
        typer.echo(f"online {__version__}")
    elif context.invoked_subcommand is None:
        serve()


@app.command()
def serve(
    state: StateFlag = None,
    host: HostFlag = None,
    port: PortFlag = None,
    config: ConfigFlag = None,
    store: StoreFlag = None,
    stream: StreamFlag = None,
    device: DeviceFlag = None,
    encoder_adapt: EncoderAdaptFlag = None,
    learner: LearnerFlag = True,
) -> None:
    """Serve the models and learn beside them. Ctrl-C stops both cleanly.

    Examples: online serve --state ./state | online serve --config online.toml --port 9000
    """
    from online.observability import configure

    configure()
    for library in ("OPENBLAS", "OMP", "MKL"):  # its products are small: more threads would only wait for each other
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    flags = {"store": store, "stream": stream, "device": device, "encoder_adapt": encoder_adapt}
    settings = load(config, state=state, host=host, port=port, **flags)
    listener = bind(settings.host, settings.port)
    from online.serving.server import run

    address = listener.getsockname()
    shown = f"http://{settings.host}:{address[1]}"
    run(
        settings,
        listener,
        learner,
        lambda: typer.echo(f"\n  online {__version__} is ready: {shown}   (Ctrl-C stops it)\n"),
    )


def load(config: Path | None, **flags: Any) -> Settings:
    try:
        return load_settings(config, **flags)
    except ValueError as error:
        raise SetupError(str(error)) from None


def bind(host: str, port: int) -> socket.socket:
    """Take the address first, so that nothing is started for one that is taken."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # told its protocol, or the event loop leaves Nagle's algorithm on: 40 ms for an answer of two packets
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        raise SetupError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port or --host"
        ) from None
    listener.listen(1024)
    return listener


@app.command()
def learn(
    state: StateFlag = None,
    config: ConfigFlag = None,
    store: StoreFlag = None,
    stream: StreamFlag = None,
    device: DeviceFlag = None,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> None:
    """Run the learner alone, for services started with --no-learner on the same state."""
    from online.observability import configure
    from online.workspace import Workspace

    configure()
    if supervised:
        settings = Settings.model_validate_json(sys.stdin.readline())
        stop_with_parent()
    else:
        settings = load(config, state=state, store=store, stream=stream, device=device)
    workspace = Workspace(settings)
    lock = workspace.lock_learner(wait=supervised)  # before torch is imported: a second service may wait here for long
    from online.learning.process import run

    raise typer.Exit(run(workspace, lock))


def stop_with_parent() -> None:
    """End this process when the supervisor is gone, however: it holds the other end of our standard input."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


@app.command()
def replay(
    source: Annotated[
        str, typer.Argument(help="our log, JSONL, CSV, Parquet, VW text, river:NAME, sklearn:NAME, or -")
    ],
    model: Annotated[
        Optional[list[str]], typer.Option("--model", help="KIND or KIND:NAME=VALUE,...; repeated: side by side")
    ] = None,
    candidates: Annotated[
        Optional[Path], typer.Option("--candidates", help="TOML of [[candidate]] with kind, options, grid")
    ] = None,
    option: Annotated[
        Optional[list[str]], typer.Option("--option", help="NAME=VALUE of every --model; may be repeated")
    ] = None,
    label: Annotated[str, typer.Option("--label", help="the label's column, of a CSV or Parquet")] = "",
    format: Annotated[str, typer.Option("--format", help="where the name does not tell: jsonl, csv, parquet, vw")] = "",
    delay: Annotated[
        str, typer.Option("--delay", help="labels arrive so many examples later; or 3600s; or at a column's time")
    ] = "0",
    at: Annotated[str, typer.Option("--at", help="the column with the time of each example, for --delay")] = "",
    task: Annotated[
        str, typer.Option("--task", help="the column that tells tasks apart: a fifth of each is held out")
    ] = "",
    every: Annotated[int, typer.Option("--every", min=1, help="learn when so many examples are there to learn")] = 1,
    from_offset: Annotated[int, typer.Option("--from-offset", min=0, help="learn up to here, score from here on")] = 0,
    to_offset: Annotated[Optional[int], typer.Option("--to-offset", min=1, help="the last event to take")] = None,
    max_bad_ratio: Annotated[
        float, typer.Option("--max-bad-ratio", min=0, max=1, help="the share of unusable lines that is borne")
    ] = 0.0,
    device: Annotated[Device, typer.Option("--device", help="where it computes")] = "cpu",
    drift: Annotated[Optional[Drift], typer.Option("--drift", help="default: as the log's service, or watch")] = None,
    csv: Annotated[Optional[Path], typer.Option("--csv", help="file for the learning curves")] = None,
    report: Annotated[Optional[Path], typer.Option("--report", help="file for a page of it all, with plots")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Replay a logged stream: answer, score, then learn, each example in order. The first model is the champion.

    Examples: online replay river:Phishing --model classifier | online replay log.jsonl.zst --model ranker --json |
    online replay elec.csv --label class --delay 48 --model logistic --model river:estimator=arf
    """
    from rich.console import Console

    from online.evaluation.contenders import contenders, options_from
    from online.evaluation.replay import Contender, Span
    from online.evaluation.sources import Delay, Reads, open_source
    from online.evaluation.table import as_json as json_of
    from online.evaluation.table import show, write_csv
    from online.learning.process import choose_device

    reads = Reads(format, label, Delay.parse(delay, at), max_bad_ratio, task)
    like = Contender("", device=choose_device(device), drift=drift, every=every)
    asked = contenders(model or [], options_from(option or []), candidates, like)
    span = Span(from_offset, to_offset)
    results, interrupted = under_replay_bar(open_source(source, reads), asked, span, max_bad_ratio)
    if csv is not None:
        write_csv(results, csv)
    if report is not None:
        from online.evaluation.report import write_report

        write_report(results, source, interrupted, report)
    typer.echo(json.dumps(json_of(results, interrupted))) if as_json else show(results, interrupted, Console())
    failed = [result for result in results if result.report is None]
    raise typer.Exit(130 if interrupted else 2 if len(failed) == len(results) else 1 if failed else 0)


def under_replay_bar(
    source: "Source", asked: Sequence["Contender"], span: "Span", max_bad_ratio: float
) -> tuple[list["Result"], bool]:
    """The results, and whether Ctrl-C ended it early; under a progress bar on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from online.evaluation.race import raced

    words, rate = TextColumn("{task.description}"), TextColumn("{task.fields[rate]}")
    columns = (words, BarColumn(), TaskProgressColumn(), rate, TimeRemainingColumn())
    started = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("replay", total=1.0, rate="")

        def at(share: float, examples: int) -> None:
            speed = examples / max(time.monotonic() - started, 1e-9)
            progress.update(task, completed=share, rate=f"{examples:,} examples, {speed:,.0f}/s")

        return raced(source, asked, span, max_bad_ratio, at)


def under_bar(work: Callable[["Tick"], T]) -> T:
    """What `work` gives, under a progress bar on standard error; Ctrl-C ends it with the status 130."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("")
        try:
            return work(lambda what, done, of: progress.update(task, description=what, completed=done, total=of))
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def untold(work: Callable[["Tick"], T]) -> T:
    """What `work` gives, where nobody watches."""
    return work(lambda what, done, of: None)


@app.command()
def evaluate(
    log: Annotated[str, typer.Argument(help="our log, a CSV, Vowpal Wabbit's contextual bandit text, dsjson, or -")],
    policy: Annotated[list[str], typer.Option("--policy", help="see above; may be repeated, for one table")],
    estimator: Annotated[
        Optional[list[str]],
        typer.Option("--estimator", help="ips, clipped, snips, dm, dr, switch or replay; default: all but the last"),
    ] = None,
    action: Annotated[str, typer.Option("--action", help="a CSV's column of what was chosen")] = "",
    reward: Annotated[str, typer.Option("--reward", help="a CSV's column of the reward, in [0, 1]")] = "",
    propensity: Annotated[str, typer.Option("--propensity", help="a CSV's column of the choice's chance")] = "",
    slot: Annotated[str, typer.Option("--slot", help="a CSV's column of where it was shown")] = "",
    feature: Annotated[
        Optional[list[str]],
        typer.Option("--feature", help="a CSV's columns of the context, like 'user*'; default: all"),
    ] = None,
    costs: Annotated[str, typer.Option("--costs", help="LOW:HIGH of a log of costs; default: 0:1 or -1:0")] = "",
    format: Annotated[str, typer.Option("--format", help="online, csv, vw or dsjson; default: as it looks")] = "",
    clip: Annotated[
        float, typer.Option("--clip", help="largest weight of clipped and switch; 0: the root of the count")
    ] = 0.0,
    folds: Annotated[
        int, typer.Option("--folds", help="parts of the log that the model of rewards is fitted without")
    ] = 5,
    level: Annotated[float, typer.Option("--level", help="of the intervals")] = 0.95,
    resamples: Annotated[int, typer.Option("--resamples", help="of the bootstrap")] = 1_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of the bootstrap")] = 0,
    max_bad_ratio: Annotated[float, typer.Option("--max-bad-ratio", help="share of bad lines that is bearable")] = 0.0,
    option: Annotated[
        Optional[list[str]], typer.Option("--option", help="NAME=VALUE of a replayed model; may be repeated")
    ] = None,
    state: StateFlag = None,
    config: ConfigFlag = None,
    model: ModelName = None,
    as_json: JsonFlag = False,
) -> None:
    """Estimate what other policies would have earned on a log of decisions that one policy made.

    A policy: logged, uniform, fixed:REPLY, greedy:MODEL, epsilon:MODEL:0.1, softmax:MODEL:0.1, thompson:MODEL,
    python:MODULE:FUNCTION (it gets a decision and gives {candidate: chance}).

    MODEL: logged-scores, ridge (of the rewards so far), version:N of a state folder, or a kind (ranker, classifier, ...)
    that replays our log up to each decision.

    There is a number only where the log can know it: propensities below 1, at most 1 % of the policy's choices
    impossible in the log, an effective sample size of at least 30. Otherwise there is the reason.

    Example: online evaluate chat.jsonl --policy logged --policy greedy:ranker --policy epsilon:logged-scores:0.2

    Example: online evaluate clicks.csv --action item --reward click --propensity p --policy uniform
    """
    from online.evaluation.bandit_formats import Columns, Reading, read_decisions
    from online.evaluation.contenders import options_from
    from online.evaluation.estimators import USUAL
    from online.evaluation.off_policy import Asks, Evaluation
    from online.evaluation.off_policy import evaluate as judged
    from online.evaluation.off_policy_shown import as_json as shown_as_json
    from online.evaluation.off_policy_shown import print_evaluation
    from online.evaluation.scorers import Scorers, Version, of_snapshots

    columns = Columns(action, reward, propensity, slot, tuple(feature or ()))
    reading = Reading(format, columns, span_from(costs), max_bad_ratio)
    asks = Asks(estimator or USUAL, clip, folds, level, resamples, seed)

    def version(number: int) -> Version:
        settings = load(config, state=state)
        spec = settings.model(chosen(settings, model))
        assert spec is not None, "chosen() gives a name that is configured"
        workspace = open_existing(settings)
        with closing(workspace.store):
            return of_snapshots(workspace, spec, number)

    def work(tick: "Tick") -> Evaluation:
        decisions, source = read_decisions(log, reading, lambda share: tick("reading", int(1_000 * share), 1_000))
        scorers = Scorers(decisions, tick, source, version, options_from(option or []))
        return judged(decisions, policy, scorers, asks, tick)

    found = under_bar(work)
    typer.echo(shown_as_json(found)) if as_json else print_evaluation(found)


def span_from(text: str) -> tuple[float, float] | None:
    """ "0:5" -> (0, 5)"""
    if not text:
        return None
    low, _, high = text.partition(":")
    try:
        span = float(low), float(high)
    except ValueError:
        span = (0.0, 0.0)
    if not -1e300 < span[0] < span[1] < 1e300:
        raise SetupError(f"--costs takes LOW:HIGH, like 0:5, not {text!r}")
    return span


@log_app.command()
def export(
    output: Annotated[Path, typer.Option("--output", help="file to write: JSONL, gzipped where it ends in .gz")],
    model: ModelName = None,
    state: StateFlag = None,
    config: ConfigFlag = None,
    store: StoreFlag = None,
) -> None:
    """Write a model's log as JSONL: every event in order, with what was asked and answered."""
    from online.evaluation.export import Export

    settings = load(config, state=state, store=store)
    spec = settings.model(chosen(settings, model))
    assert spec is not None, "chosen() gives a name that is configured"
    workspace = open_existing(settings)
    with closing(workspace.store):
        made = Export(workspace, spec)
        under_bar(lambda tick: made.write(output, lambda done, of: tick("writing", done, of)))
    typer.echo(f"{made.head:,} events and {made.asked:,} predictions written to {output}", err=True)


@app.command()
def versions(
    model: ModelName = None, state: StateFlag = None, config: ConfigFlag = None, as_json: JsonFlag = False
) -> None:
    """List the versions that are kept, newest first."""
    from online.snapshots import as_shown

    settings = load(config, state=state)
    snapshots = existing_snapshots(settings, chosen(settings, model))
    live = snapshots.live()
    listed = [
        as_shown(manifest, live is not None and manifest.version == live.version) for manifest in snapshots.manifests()
    ]
    if as_json:
        typer.echo(json.dumps({"versions": listed}))
        return
    for version in listed:
        mark, made_at = "*" if version["live"] else " ", version["created_at"][:19]
        until, state_sha256 = version["learned_until"], version["state_sha256"][:12]
        typer.echo(f"{mark} {version['version']:>6}  learned until {until:<8} {made_at}  {state_sha256}")


@app.command()
def rollback(
    version: Annotated[int, typer.Argument(help="the version to make live")],
    model: ModelName = None,
    state: StateFlag = None,
    config: ConfigFlag = None,
) -> None:
    """Make an older version live. Learning goes on, and publishes from the next event on."""
    from online.models import recipe

    settings = load(config, state=state)
    name = chosen(settings, model)
    spec = settings.model(name)
    assert spec is not None, "chosen() gives a name that is configured"
    workspace = open_existing(settings)
    manifest = workspace.snapshots(name).roll_back(version, recipe(spec.kind, workspace.options(spec)))
    workspace.store.close()
    typer.echo(f"{manifest.model} answers from version {manifest.version}, learned until {manifest.learned_until}")


@app.command()
def adapt(
    model: ModelName = None,
    state: StateFlag = None,
    config: ConfigFlag = None,
    store: StoreFlag = None,
    publish: Annotated[bool, typer.Option("--publish", help="take it up where it is proven better")] = False,
    frozen: Annotated[bool, typer.Option("--frozen", help="go back to the encoder that was never tuned")] = False,
    as_json: JsonFlag = False,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> None:
    """Tune the text encoder on what was taught, and see whether it is better on what it was not tuned on.

    Without --publish nothing is changed. With it (or --frozen) a service may run: it goes on answering and learning.

    Examples: online adapt --state ./state | online adapt --publish | online adapt --frozen
    """
    from online.observability import configure

    if supervised:
        configure()
        settings = Settings.model_validate_json(sys.stdin.readline())
        stop_with_parent()
    else:
        settings = load(config, state=state, store=store)
    os.nice(10)  # a service may run on these cores
    from online.learning.adopting import Attempt

    workspace = open_existing(settings)
    attempt = Attempt(workspace, chosen(settings, model))
    with closing(workspace.store):
        shown = untold if supervised else under_bar
        outcome = shown(lambda tick: attempt.go_back(tick) if frozen else attempt.run(publish, tick))
    typer.echo(json.dumps(outcome.told())) if as_json else typer.echo("\n".join(outcome.lines()))


@app.command()
def openapi() -> None:
    """Print the API's OpenAPI document."""
    import tempfile

    from online.serving.app import create_app

    with tempfile.TemporaryDirectory() as folder:
        made = create_app(Settings(state=Path(folder)), with_learner=False)
        typer.echo(json.dumps(made.openapi(), indent=1))
        made.state.parts.workspace.store.close()


def existing_snapshots(settings: Settings, model: str) -> "Snapshots":
    from online.workspace import snapshots_in

    check_state(settings)
    return snapshots_in(settings, model)


def check_state(settings: Settings) -> None:
    if not settings.state.exists():
        raise SetupError(f"there is no state folder {settings.state}; say where it is with --state")


def open_existing(settings: Settings) -> "Workspace":
    from online.workspace import Workspace

    check_state(settings)
    return Workspace(settings)


def chosen(settings: Settings, model: str | None) -> str:
    names = [each.name for each in settings.models]
    if model is None and len(names) == 1:
        return names[0]
    if model not in names:
        raise SetupError(f"say which model with --model: {', '.join(names)}")
    return model


def main() -> None:
    try:
        app()
    except OnlineError as error:
        typer.echo(f"online: {error}", err=True)
        raise SystemExit(2) from None
