"""`online serve`: the service.

It starts the hidden command `store` for the store process and, with several workers, `work` for each of the others.
"""

import errno
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from online import __version__
from online.cli.options import (
    ConfigOption,
    DeviceOption,
    ModelsOption,
    SetOption,
    StateOption,
    StoreOption,
    StreamOption,
    SupervisedOption,
)
from online.cli.processes import die_with_parent, exit_on_sigterm, keep_files_private, read_parent_settings
from online.cli.state import load_own_settings
from online.errors import SetupError
from online.settings import Settings

PORT_WAIT_S = 3.0  # for the workers of a service that was killed a moment ago to let go of its port
PORT_LOOK_S = 0.05

HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on. Default: 127.0.0.1.")]
PortOption = Annotated[int | None, typer.Option("--port", help="Port to listen on; 0 takes a free one. Default: 8000.")]
GrpcPortOption = Annotated[
    int | None, typer.Option("--grpc-port", help="Port to listen on for gRPC; 0 takes a free one. Default: no gRPC.")
]
EncoderAdaptOption = Annotated[
    bool | None,
    typer.Option("--encoder-adapt/--no-encoder-adapt", help="Tune text encoders beside the service. Default: no."),
]
AdminKeyOption = Annotated[
    str | None,
    typer.Option(
        "--admin-key",
        help="A key with every scope; with it callers need a key. Better set ONLINE_ADMIN_KEY: process lists show "
        "options. Default: no such key.",
    ),
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="Processes that answer predictions on the one port. Default: 1.")
]
LearnerOption = Annotated[bool, typer.Option("--learner/--no-learner", help="Run a learner beside the service.")]


def serve(
    state: StateOption = None,
    host: HostOption = None,
    port: PortOption = None,
    grpc_port: GrpcPortOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    stream: StreamOption = None,
    device: DeviceOption = None,
    encoder_adapt: EncoderAdaptOption = None,
    admin_key: AdminKeyOption = None,
    workers: WorkersOption = None,
    models: ModelsOption = None,
    set: SetOption = None,
    learner: LearnerOption = True,
) -> None:
    """Serve the models, and learn beside them. Ctrl-C or SIGTERM stops both cleanly.

    \b
    Examples:
      online serve --state ./state
      online serve --config online.toml --port 9000 --set max_waiting=4096
      online serve --config online.toml --models 1/3
    """
    exit_on_sigterm()
    keep_files_private()
    set_library_defaults()
    flags: dict[str, object] = {
        "store": store,
        "stream": stream,
        "device": device,
        "admin_key": admin_key,
        "grpc_port": grpc_port,
    }
    flags |= {"state": state, "host": host, "port": port, "workers": workers, "encoder_adapt": encoder_adapt}
    settings = load_own_settings(config, models, set, **flags)
    check_certificate(settings)
    if learner:
        from online.learning.workers import find_support

        find_support().check(settings)
    listener = bind(settings.host, settings.port)
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})  # the free one, where the setting is 0
    if settings.grpc_port:
        bind(settings.host, settings.grpc_port, "--grpc-port").close()  # gRPC binds it again once all is loaded
    with shared_metrics(settings.workers):
        run_service(listener, settings, learner)


def check_certificate(settings: Settings) -> None:
    """Find a certificate that cannot be used before the models are loaded. Raises SetupError."""
    if settings.tls_certificate is not None and settings.tls_key is not None:
        from online.io.tls import create_tls_context

        create_tls_context(settings.tls_certificate, settings.tls_key)


def set_library_defaults() -> None:
    """Set what libraries read from the environment when they are imported, unless the user has."""
    for library in ("OPENBLAS", "OMP", "MKL"):  # our products are small: more threads would wait for each other
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # our children are new programs, not forks


@contextmanager
def shared_metrics(workers: int) -> Iterator[None]:
    """Give several workers one folder for their metrics, as prometheus_client expects."""
    if workers == 1:
        yield
        return
    with TemporaryDirectory(prefix="online-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        yield


def run_service(listener: socket.socket, settings: Settings, learner: bool) -> None:
    """Configure logging and run the service on an open socket until it is stopped."""
    from online.telemetry import configure_logging

    configure_logging(settings.log_level, settings.log_format)
    from online.api.http.server import run

    scheme = "http" if settings.tls_certificate is None else "https"
    url = f"{scheme}://{settings.host}:{listener.getsockname()[1]}"
    run(
        settings,
        listener,
        learner,
        lambda: typer.echo(f"\n  online {__version__} is ready: {url}   (Ctrl-C stops it)\n"),
    )


def run_store_process(
    channel: Annotated[int, typer.Option("--channel", help="File descriptor of the connection to the server.")],
    supervised: SupervisedOption = True,
) -> None:
    """Commit feedback and copy predictions into the store, for the service that has started this process."""
    keep_files_private()
    settings = read_parent_settings()
    from online.io.collector import collect_seldom
    from online.serving.feedback.work import create_work
    from online.serving.processes.journal_copier import JournalCopier
    from online.serving.processes.store_process import StoreProcess
    from online.state.workspace import Workspace
    from online.telemetry import configure_logging

    configure_logging(settings.log_level, settings.log_format)
    workspace = Workspace(settings)
    collect_seldom()
    journal = workspace.journal_copy()
    copier = JournalCopier(workspace.store, journal)
    # in a thread: the handler may interrupt `run` while it holds the lock of what `stop` sets
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=copier.stop).start())
    StoreProcess(socket.socket(fileno=channel), create_work(workspace, journal).submit, copier.stop).start()
    copier.run()
    workspace.store.close()


def bind(host: str, port: int, option: str = "--port") -> socket.socket:
    """Listen on the address before anything else starts. Raises SetupError if that is not possible."""
    deadline = time.monotonic() + PORT_WAIT_S
    while True:
        try:
            return listen(host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < deadline:
                time.sleep(PORT_LOOK_S)
                continue
            raise SetupError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another with {option} or --host"
            ) from None


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    # without the protocol the event loop leaves Nagle's algorithm on: 40 ms for an answer of two packets
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


def run_worker(
    number: Annotated[
        int, typer.Option("--number", help="Number of the worker, which decides on which device it answers.")
    ],
    listener: Annotated[int, typer.Option("--listener", help="File descriptor of the socket all workers accept from.")],
    first: Annotated[int, typer.Option("--first", help="Port on which the first worker takes forwarded requests.")],
) -> None:
    """Run one of several workers. The first worker starts it."""
    die_with_parent()
    from online.telemetry import configure_logging

    exit_on_sigterm()
    keep_files_private()
    settings = read_parent_settings()
    configure_logging(settings.log_level, settings.log_format)
    from online.api.http.server import run_beside

    run_beside(settings, socket.socket(fileno=listener), first, number)
