"""The command line: serve (the default), learn, predict, replay, evaluate, log export and report, versions and what is
done to them (rollback, label, freeze, thaw), adapt, openapi.
"""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, TypeVar

import typer

from online import __version__
from online.errors import OnlineError, SetupError
from online.settings import Device, Drift, ModelSettings, Settings
from online.settings import load as load_settings

if TYPE_CHECKING:
    from online.learning.adapting import Tick
    from online.snapshots import Snapshots
    from online.workspace import Workspace

T = TypeVar("T")
Engine = Literal["here", "ray"]
FileFormat = Literal["jsonl", "csv", "parquet"]

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
GrpcPortFlag = Annotated[
    Optional[int], typer.Option("--grpc-port", help="port to listen on for gRPC; 0 takes a free one; default: no gRPC")
]
EncoderAdaptFlag = Annotated[
    Optional[bool],
    typer.Option("--encoder-adapt/--no-encoder-adapt", help="tune text encoders beside the service; default: not"),
]
AdminKeyFlag = Annotated[
    Optional[str],
    typer.Option(
        "--admin-key", envvar="ONLINE_ADMIN_KEY", help="key to change what is served; default: from this machine alone"
    ),
]
WorkersFlag = Annotated[
    Optional[int], typer.Option("--workers", help="processes that answer predictions on the one port; default 1")
]
LearnerFlag = Annotated[bool, typer.Option("--learner/--no-learner", help="run a learner beside the service")]
JsonFlag = Annotated[bool, typer.Option("--json", help="print one JSON object, for machines")]
ModelName = Annotated[Optional[str], typer.Option("--model", help="the model's name; default: the only one")]
BadFlag = Annotated[
    float, typer.Option("--max-bad-ratio", min=0, max=1, help="the share of unusable lines that is borne")
]
CostsFlag = Annotated[
    str, typer.Option("--costs", help="LOW:HIGH of the costs of Vowpal Wabbit's decisions; default: 0:1 or -1:0")
]
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
    grpc_port: GrpcPortFlag = None,
    config: ConfigFlag = None,
    store: StoreFlag = None,
    stream: StreamFlag = None,
    device: DeviceFlag = None,
    encoder_adapt: EncoderAdaptFlag = None,
    admin_key: AdminKeyFlag = None,
    workers: WorkersFlag = None,
    learner: LearnerFlag = True,
) -> None:
    """Serve the models and learn beside them. Ctrl-C stops both cleanly.

    Examples: online serve --state ./state | online serve --config online.toml --port 9000
    """
    for library in ("OPENBLAS", "OMP", "MKL"):  # its products are small: more threads would only wait for each other
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # our children are new programs
    flags = {"store": store, "stream": stream, "device": device, "admin_key": admin_key, "grpc_port": grpc_port}
    settings = load(config, state=state, host=host, port=port, workers=workers, encoder_adapt=encoder_adapt, **flags)
    listener = bind(settings.host, settings.port)
    if settings.grpc_port:
        bind(settings.host, settings.grpc_port, "--grpc-port").close()  # its own server binds when all is loaded
    with counted_together(settings.workers):
        serve_on(listener, settings, learner)


@contextmanager
def counted_together(workers: int) -> Iterator[None]:
    """Several workers keep their metrics in one folder, which their library reads from the environment."""
    if workers == 1:
        yield
        return
    with TemporaryDirectory(prefix="online-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        yield


def serve_on(listener: socket.socket, settings: Settings, learner: bool) -> None:
    from online.observability import configure

    configure()
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


def bind(host: str, port: int, flag: str = "--port") -> socket.socket:
    """Take the address first, so that nothing is started for one that is taken."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # told its protocol, or the event loop leaves Nagle's algorithm on: 40 ms for an answer of two packets
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        raise SetupError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another with {flag} or --host"
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


@app.command(hidden=True)
def work(
    number: Annotated[int, typer.Option("--number", help="which of them: for whoever lists the processes")],
    listener: Annotated[int, typer.Option("--listener", help="file descriptor of the socket that all accept from")],
    first: Annotated[int, typer.Option("--first", help="port of the first worker")],
) -> None:
    """One of several workers, started by the first."""
    from online.observability import configure

    configure()
    settings = Settings.model_validate_json(sys.stdin.readline())
    stop_with_parent()
    from online.serving.server import run_beside

    run_beside(settings, socket.socket(fileno=listener), first)


def stop_with_parent() -> None:
    """End this process when the supervisor is gone, however: it holds the other end of our standard input."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def step_back(steps: int) -> None:
    """Leave the processors to others first. Where Linux groups processes by session, to other groups: `nice` alone orders those
    within one, and what a service starts is a group of its own.
    """
    os.nice(steps)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(steps))


@app.command()
def replay(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG", help="our log, JSONL, CSV, Parquet, VW text, dsjson, river:NAME, sklearn:NAME, or -"
        ),
    ],
    model: Annotated[
        Optional[list[str]], typer.Option("--model", help="KIND or KIND:NAME=VALUE,...; repeated: side by side")
    ] = None,
    candidates: Annotated[
        Optional[Path], typer.Option("--candidates", help="TOML of [\\[candidate]] with kind, options, grid")
    ] = None,
    option: Annotated[
        Optional[list[str]], typer.Option("--option", help="NAME=VALUE of every --model; may be repeated")
    ] = None,
    label: Annotated[str, typer.Option("--label", help="the label's column, of a CSV or Parquet")] = "",
    format: Annotated[
        str, typer.Option("--format", help="jsonl, csv, parquet, vw or dsjson; default: as it is named or looks")
    ] = "",
    costs: CostsFlag = "",
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
    max_bad_ratio: BadFlag = 0.0,
    device: Annotated[Device, typer.Option("--device", help="where it computes")] = "cpu",
    drift: Annotated[Optional[Drift], typer.Option("--drift", help="default: as the log's service, or watch")] = None,
    csv: Annotated[Optional[Path], typer.Option("--csv", help="file for the learning curves")] = None,
    report: Annotated[Optional[Path], typer.Option("--report", help="file for a page of it all, with plots")] = None,
    engine: Annotated[Engine, typer.Option("--engine", help="ray: each model and log is a task of a cluster")] = "here",
    address: Annotated[str, typer.Option("--address", help="of a Ray cluster; default: one is started here")] = "",
    results: Annotated[
        Optional[Path], typer.Option("--results", help="folder where ray keeps what is finished; default: ./replays")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Replay logged streams: answer, score, then learn, each example in order. The first model is the champion.

    Examples: online replay river:Phishing --model classifier | online replay log.jsonl.zst --model ranker --json |
    online replay elec.csv --label class --delay 48 --model logistic --model river:estimator=arf

    With --engine ray each model and log is a task of a Ray cluster, whose nodes see the logs at the same paths.
    What is finished is kept in --results: the same command goes on where it was cut short.

    Example: online replay logs/*.jsonl.zst --candidates grid.toml --engine ray --results ./replays
    """
    from rich.console import Console

    from online.evaluation.contenders import contenders, options_from
    from online.evaluation.race import Played, one_by_one
    from online.evaluation.replay import Contender, Span
    from online.evaluation.sources import Delay, Reads, open_sources
    from online.evaluation.table import as_json as json_of
    from online.evaluation.table import exit_status, show_all, write_csv
    from online.evaluation.vw import costs_from
    from online.learning.process import choose_device

    if report is not None and len(logs) > 1:
        raise SetupError("--report writes a page of one log: give it one")
    if engine == "here" and (address or results):
        raise SetupError("--address and --results belong to --engine ray")
    reads = Reads(format, label, Delay.parse(delay, at), max_bad_ratio, task, costs_from(costs))
    like = Contender("", device=choose_device(device), drift=drift, every=every)
    asked = contenders(model or [], options_from(option or []), candidates, like)
    span = Span(from_offset, to_offset)
    sources = open_sources(logs, reads)

    def work(tick: "Tick") -> list[Played]:
        if engine == "here":
            return one_by_one(sources, asked, span, max_bad_ratio, tick)
        from online.evaluation.cluster import played_on_ray
        from online.evaluation.finished import Folder

        folder = Folder.opened(results or Path("replays"), lambda words: typer.echo(words, err=True))
        return played_on_ray(address, folder, sources, asked, span, tick)

    played = under_bar(work)
    if csv is not None:
        write_csv(played, csv)
    if report is not None:
        from online.evaluation.report import write_report

        write_report(played[0].results, played[0].log, played[0].interrupted, report)
    typer.echo(json.dumps(json_of(played))) if as_json else show_all(played, Console())
    raise typer.Exit(exit_status(played))


def under_bar(work: Callable[["Tick"], T]) -> T:
    """What `work` gives, under a progress bar on standard error; Ctrl-C ends it with the status 130."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("")
        try:
            return work(
                lambda what, done, of: progress.update(task, description=escape(what), completed=done, total=of)
            )
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def in_lines(work: Callable[["Tick"], T]) -> T:
    """What `work` gives, with its progress on standard output, a JSON object for each percent."""
    last: tuple[str, int] | None = None

    def tick(what: str, done: int, of: int) -> None:
        nonlocal last
        now = what, 100 * done // max(of, 1)
        if now != last:
            print(json.dumps({"what": now[0], "percent": now[1]}), flush=True)
        last = now

    return work(tick)


def untold(work: Callable[["Tick"], T]) -> T:
    """What `work` gives, where nobody watches."""
    return work(lambda what, done, of: None)


@app.command()
def evaluate(
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG", help="our log, a CSV, Vowpal Wabbit's bandit text (--cb, --cb_adf), dsjson, or -"
        ),
    ],
    policy: Annotated[list[str], typer.Option("--policy", help="see above; may be repeated, for one table")],
    estimator: Annotated[
        Optional[list[str]],
        typer.Option("--estimator", help="ips, clipped, snips, dm, dr, switch or replay; default: all but the last"),
    ] = None,
    action: Annotated[
        str,
        typer.Option("--action", help="a CSV's column of what was chosen; of VW's many lines: tag, features, position"),
    ] = "",
    reward: Annotated[str, typer.Option("--reward", help="a CSV's column of the reward, in [0, 1]")] = "",
    propensity: Annotated[str, typer.Option("--propensity", help="a CSV's column of the choice's chance")] = "",
    slot: Annotated[str, typer.Option("--slot", help="a CSV's column of where it was shown")] = "",
    feature: Annotated[
        Optional[list[str]],
        typer.Option("--feature", help="a CSV's columns of the context, like 'user*'; default: all"),
    ] = None,
    costs: CostsFlag = "",
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
    max_bad_ratio: BadFlag = 0.0,
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
    that replays the log, a CSV excepted, up to each decision.

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
    from online.evaluation.vw import costs_from

    columns = Columns(action, reward, propensity, slot, tuple(feature or ()))
    reading = Reading(format, columns, costs_from(costs), max_bad_ratio)
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


@log_app.command("report")
def log_report(
    output: Annotated[Path, typer.Option("--output", help="file to write: one page of HTML")],
    model: ModelName = None,
    state: StateFlag = None,
    config: ConfigFlag = None,
    store: StoreFlag = None,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> None:
    """Replay a model's own log on the model itself, and write what it came to as a page with plots.

    A service may run: it goes on answering and learning, and shows the same page at /v1/models/MODEL/report.
    """
    if supervised:
        settings = Settings.model_validate_json(sys.stdin.readline())
        stop_with_parent()
    else:
        settings = load(config, state=state, store=store)
    step_back(10)  # a service may run on these cores
    from online.evaluation.own import write_own_report

    spec = settings.model(chosen(settings, model))
    assert spec is not None, "chosen() gives a name that is configured"
    workspace = open_existing(settings)
    with closing(workspace.store):
        under = in_lines if supervised else under_bar
        until = under(lambda tick: write_own_report(workspace, spec, output, tick))
    typer.echo(json.dumps({"until": until}) if supervised else f"everything up to event {until:,} is told in {output}")


@log_app.command("replay", hidden=True)
def log_replay(folder: Path) -> None:
    """Replay a log that was sent to a service, whose own doing this is. Everybody else has `online replay`."""
    Settings.model_validate_json(sys.stdin.readline())
    stop_with_parent()
    step_back(10)  # the service runs on these cores
    from online.evaluation.sent import first_to_go, replay_sent

    first_to_go()
    in_lines(lambda tick: replay_sent(folder, lambda models: print(json.dumps({"models": models}), flush=True), tick))


@app.command()
def versions(
    model: ModelName = None, state: StateFlag = None, config: ConfigFlag = None, as_json: JsonFlag = False
) -> None:
    """List the versions that are kept, newest first."""
    from online.models.contest import told_of
    from online.snapshots import as_shown

    settings = load(config, state=state)
    snapshots = existing_snapshots(settings, chosen(settings, model))
    live, named, frozen = snapshots.live(), snapshots.names(), snapshots.frozen()
    listed = [
        as_shown(manifest, live is not None and manifest.version == live.version, named.get(manifest.version, ()))
        for manifest in snapshots.manifests()
    ]
    if as_json:
        typer.echo(json.dumps({"versions": listed, "frozen": frozen and asdict(frozen)}))
        return
    for version in listed:
        mark, made_at = "*" if version["live"] else " ", version["created_at"][:19]
        until, state_sha256 = version["learned_until"], version["state_sha256"][:12]
        names = f"  {', '.join(version['labels'])}" if version["labels"] else ""
        contest = f"  {told}" if (told := told_of(version["metrics"])) else ""
        typer.echo(
            f"{mark} {version['version']:>6}  learned until {until:<8} {made_at}  {state_sha256}{names}{contest}"
        )
    if frozen is not None:
        typer.echo(
            f"frozen since {frozen.since[:19]}: nothing is learned until `online thaw`. {frozen.reason}".rstrip()
        )


@app.command()
def rollback(
    version: Annotated[str, typer.Argument(help="the version to make live: its number or a label")] = "previous",
    model: ModelName = None,
    state: StateFlag = None,
    config: ConfigFlag = None,
) -> None:
    """Make an older version live. Learning goes on, and publishes from the next event on.

    Examples: online rollback | online rollback 12 | online rollback stable
    """
    from online.models import recipe

    settings = load(config, state=state)
    name = chosen(settings, model)
    spec = settings.model(name)
    assert spec is not None, "chosen() gives a name that is configured"
    workspace = open_existing(settings)
    snapshots = workspace.snapshots(name)
    manifest = snapshots.roll_back(snapshots.number_of(version), recipe(spec.kind, workspace.options(spec)))
    workspace.store.close()
    typer.echo(f"{manifest.model} answers from version {manifest.version}, learned until {manifest.learned_until}")


@app.command()
def label(
    name: Annotated[str, typer.Argument(help="letters, digits and '_': stable, canary, ...")],
    version: Annotated[Optional[str], typer.Argument(help="the version: its number or another label")] = None,
    percent: Annotated[float, typer.Option("--percent", min=0, max=100, help="of canary: its share of traffic")] = 0,
    drop: Annotated[bool, typer.Option("--drop", help="take the name away")] = False,
    model: ModelName = None,
    state: StateFlag = None,
    config: ConfigFlag = None,
) -> None:
    """Name a version: it is kept and can be asked for by that name. A running service follows at once.

    Examples: online label stable 12 | online label canary latest --percent 5 | online label stable --drop
    """
    from online.snapshots import Labelled

    settings = load(config, state=state)
    snapshots = existing_snapshots(settings, chosen(settings, model))
    if drop == (version is not None):
        raise SetupError("say which version gets the label, or --drop")
    if version is None:
        snapshots.drop_label(name)
        typer.echo(f"no version of {snapshots.model} is {name} any more")
        return
    labelled = Labelled(snapshots.number_of(version), percent)
    snapshots.set_label(name, labelled)
    share = f", for {percent:g} % of the traffic" if percent else ""
    typer.echo(f"version {labelled.version} of {snapshots.model} is {name}{share}")


@app.command()
def freeze(
    reason: Annotated[str, typer.Option("--reason", help="said to whoever looks")] = "",
    model: ModelName = None,
    state: StateFlag = None,
    config: ConfigFlag = None,
) -> None:
    """Learn nothing more until `online thaw`. Feedback is taken meanwhile, and waits in the log."""
    from online.snapshots import Frozen
    from online.store import now

    settings = load(config, state=state)
    snapshots = existing_snapshots(settings, chosen(settings, model))
    snapshots.freeze(Frozen(now(), reason))
    typer.echo(f"{snapshots.model} is frozen; `online thaw` lets it learn what comes in meanwhile")


@app.command()
def thaw(model: ModelName = None, state: StateFlag = None, config: ConfigFlag = None) -> None:
    """Learn what waited since `online freeze`, and go on."""
    from online.models import recipe
    from online.quarantine import open_of

    settings = load(config, state=state)
    name = chosen(settings, model)
    spec = settings.model(name)
    assert spec is not None, "chosen() gives a name that is configured"
    workspace = open_existing(settings)
    if workspace.store.read(lambda connection: open_of(connection, name)) is not None:
        raise SetupError(f"the guard froze {name}: look at it on the page, or at /v1/models/{name}/quarantine")
    workspace.snapshots(name).thaw(recipe(spec.kind, workspace.options(spec)))
    workspace.store.close()
    typer.echo(f"{name} learns again")


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
    step_back(10)  # a service may run on these cores
    from online.learning.adopting import Attempt
    from online.models.encoder import adapts

    name = chosen(settings, model, lambda spec: adapts(spec.kind, spec.options))
    workspace = open_existing(settings)
    attempt = Attempt(workspace, name)
    with closing(workspace.store):
        shown = untold if supervised else under_bar
        outcome = shown(lambda tick: attempt.go_back(tick) if frozen else attempt.run(publish, tick))
    typer.echo(json.dumps(outcome.told())) if as_json else typer.echo("\n".join(outcome.lines()))


@app.command()
def predict(
    input: Annotated[Path, typer.Argument(metavar="IN", help="JSONL, CSV or Parquet, plain or .gz or .zst")],
    out: Annotated[Path, typer.Option("--out", help="folder for the results: new, empty, or this job's own")],
    model: ModelName = None,
    version: Annotated[str, typer.Option("--version", help="a number or a label")] = "latest",
    key: Annotated[str, typer.Option("--key", help="field that is told with each prediction, instead of it all")] = "",
    format: Annotated[Optional[FileFormat], typer.Option("--format", help="default: as it is named, or JSONL")] = None,
    shards: Annotated[int, typer.Option("--shards", min=1, max=100, help="files of results")] = 4,
    max_bad_ratio: Annotated[
        float, typer.Option("--max-bad-ratio", min=0, max=1, help="the share of rows that may fail before the job does")
    ] = 0.5,
    state: StateFlag = None,
    config: ConfigFlag = None,
    store: StoreFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Answer every row of a file, by one version, in order. The same command goes on where it was cut short.

    A service may run: it is not asked, its snapshots are read. Answers are not recorded, so no feedback can refer to them.

    Examples: online predict questions.jsonl --out answers | online predict rows.csv.gz --out scored --key id --version stable
    """
    settings = load(config, state=state, store=store)
    spec = settings.model(chosen(settings, model))
    assert spec is not None, "chosen() gives a name that is configured"
    step_back(10)  # a service may run on these cores
    from online.serving.alone import predict_file
    from online.serving.batch_job import Counts, JobSpec

    job = JobSpec(input.resolve(), out.resolve(), spec.name, version, key, format or "", shards)
    workspace = open_existing(settings)

    def work(tick: "Tick") -> tuple[int, Counts]:
        try:
            return predict_file(workspace, spec, job, max_bad_ratio, tick)
        except KeyboardInterrupt:
            typer.echo("online: stopped; the same command goes on from here", err=True)
            raise

    with closing(workspace.store):
        number, counts = under_bar(work)
    if as_json:
        typer.echo(json.dumps({"version": str(number), **asdict(counts)}))
        return
    failed = f", {counts.errors:,} could not be answered: {out}/prediction.errors_stats-*" if counts.errors else ""
    typer.echo(f"{counts.results:,} rows were answered by version {number} of {spec.name} into {out}{failed}")


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

    return snapshots_in(settings, model)


def check_state(settings: Settings) -> None:
    if not settings.state.exists():
        raise SetupError(f"there is no state folder {settings.state}; say where it is with --state")


def open_existing(settings: Settings) -> "Workspace":
    from online.workspace import Workspace

    return Workspace(settings)


def chosen(settings: Settings, model: str | None, fits: Callable[[ModelSettings], bool] = lambda _: True) -> str:
    """The model that was named, or else the only one that fits. Raises SetupError, also where there is no state folder."""
    check_state(settings)
    names = [each.name for each in settings.models]
    fitting = [each.name for each in settings.models if fits(each)] or names
    if model is None and len(fitting) == 1:
        return fitting[0]
    if model not in names:
        missing = f"there is no model {model!r}; " if model is not None else ""
        raise SetupError(f"{missing}say which model with --model: {', '.join(names)}")
    return model


def main() -> None:
    try:
        app()
    except OnlineError as error:
        typer.echo(f"online: {error}", err=True)
        raise SystemExit(2) from None
