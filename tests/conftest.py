"""Fixtures shared by many tests: running services, and the databases they need."""

import functools
import importlib.util
import itertools
import json
import multiprocessing
import os
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

import pytest

from tests.preload import PreloaderProcess, interpreter_variables, launcher
from tests.support import Service, connect_as_admin, skip_or_fail

if TYPE_CHECKING:
    from online.store import Store
    from tests.evaluation.driven import Driven

os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY if os.access(MEMORY := "/dev/shm", os.W_OK) else gettempdir())
for library in ("OPENBLAS", "OMP", "MKL"):  # the test workers share few cores, so more threads would only compete
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
TESTS = Path(__file__).parent
LONG = TESTS / "long"
ADAPTERS = TESTS / "packages" / "online_adapters"  # run by themselves (Makefile), beside libraries that no service has
SLOWEST = (  # files, the slowest first; most of them share a scene that takes long to set up
    "plugins/encoder_tuning/test_adoption.py",
    "e2e/test_reports_page.py",
    "e2e/test_learning_page.py",
    "plugins/reports/test_replay_jobs.py",
    "e2e/test_repertoire_page.py",
)
PRELOADER = pytest.StashKey[PreloaderProcess]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the long tests too, and every case of each test")


def pytest_configure(config: pytest.Config) -> None:
    """Start one preloader for all workers of a run: only the controller process starts it."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.stash[PRELOADER] = PreloaderProcess()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if ADAPTERS in (collection_path, *collection_path.parents) and importlib.util.find_spec("trl") is None:
        return True
    return True if collection_path == LONG and not config.getoption("--all") else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `long`, and let each worker begin with some of the slowest files.

    A worker gets an equal share of the list, and an idle one takes tests from the end of another's share. So no scene
    is set up by two of them, and the tests that are left at last are short.
    """
    for item in (long := find_long(items)):
        item.add_marker("long")  # what `few` leaves out as well, for -m long
    if not config.getoption("--all"):
        config.hook.pytest_deselected(items=[*long])
        items[:] = [item for item in items if item not in long]
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    slow = {TESTS / file: list[pytest.Item]() for file in SLOWEST}
    rest = list[pytest.Item]()
    for item in items:
        slow.get(item.path, rest).append(item)
    others, ordered = iter(rest), list[pytest.Item]()
    for number in range(workers):
        for file in SLOWEST[number::workers]:
            ordered += slow[TESTS / file]
        ordered += itertools.islice(others, max(0, len(items) * (number + 1) // workers - len(ordered)))
    items[:] = [*ordered, *others]


def find_long(items: list[pytest.Item]) -> set[pytest.Item]:
    """Those marked `long`, and of each test marked `few(count)` all cases but so many, which are taken from all over."""
    long = {item for item in items if item.get_closest_marker("long")}
    cases = defaultdict[tuple[str, int], list[pytest.Item]](list)
    for item in items:
        if item not in long and (few := item.get_closest_marker("few")):
            cases[item.nodeid.split("[")[0], few.args[0]].append(item)
    for (_, count), found in cases.items():
        chosen = {round(place * (len(found) - 1) / max(1, count - 1)) for place in range(count)}
        long.update(item for place, item in enumerate(found) if place not in chosen)
    return long


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start one worker more than there are cores, because tests often wait for a service."""
    return (os.cpu_count() or 1) + 1


def pytest_unconfigure(config: pytest.Config) -> None:
    if (preloader := config.stash.get(PRELOADER, None)) is not None:
        preloader.stop()


@pytest.fixture(scope="module", autouse=True)
def interpreter_variables_are_restored() -> Iterator[None]:
    """Check that no module leaves a variable behind with which the preloader would not start its programs."""
    before = interpreter_variables(os.environ)
    yield
    assert interpreter_variables(os.environ) == before


MODELS = """
[[models]]
name = "chat"
kind = "ranker"

[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 4, scale = 4.0 }

[[models]]
name = "tab"
kind = "classifier"
options = { input = "table" }

[[models]]
name = "txt"
kind = "classifier"
options = { input = "text" }

[[models]]
name = "lab"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }

[[models]]
name = "num"
kind = "regressor"
options = { input = "vector", size = 2, scale = 4.0, target_scale = 64.0 }

[[models]]
name = "rv"
kind = "river"
"""

TAUGHT: dict[str, list[dict[str, Any]]] = {  # what the models of the shared service have learned before its first test
    "chat": [{"input": "Is there coffee?", "correction": "Coffee is in the hall."}],
    "vec": [{"input": [n % 2, 0, 0, 0], "label": f"class {n % 2}"} for n in range(8)],
    "tab": [{"input": {"colour": "green", "x": n}, "label": f"class {n % 2}"} for n in range(8)],
    "txt": [{"input": f"hello {n}", "label": f"class {n % 2}"} for n in range(8)],
    "lab": [{"input": [n % 3, n % 2], "label": f"class {n % 3}"} for n in range(8)],
    "num": [{"input": [n % 4, n % 3], "label": 100 - 3 * n} for n in range(8)],
    "rv": [{"input": {"x": n}, "label": f"class {n % 2}"} for n in range(8)] + [{"input": {"x": 1e200}, "label": "a"}],
}

REPERTOIRE = [
    {"id": "hours", "text": "We open at nine.", "examples": ["When do you open?", "What are your opening hours?"]},
    {"id": "renew", "text": "Renew it on your account page.", "examples": ["How do I renew a book?", "Extend my loan"]},
    {
        "id": "print",
        "text": "The printer is by the stairs.",
        "examples": ["Can I print here?", "Where is the printer?"],
    },
    {"id": "wifi", "text": "The network is called Guest.", "examples": ["Is there wifi?", "How do I get online?"]},
    {"id": "card", "text": "Bring an identity card to join.", "examples": ["How do I join?", "I want a library card"]},
]


def config(folder: Path, models: str = MODELS, **settings: str | int | float | list[str]) -> str:
    """Write the small repertoire to `folder` and return a TOML configuration that uses it."""
    path = folder / "repertoire.jsonl"
    path.write_text("\n".join(json.dumps(reply) for reply in REPERTOIRE))
    lines = [f"{name} = {json.dumps(value)}" for name, value in {"repertoire": str(path), **settings}.items()]
    return "\n".join(lines) + "\n" + models


@pytest.fixture(scope="session", autouse=True)
def one_ssl_context() -> Iterator[None]:
    """Share one SSL context: otherwise every HTTP client reads all certificates when it is created, which takes 50 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="session", autouse=True)
def spawned_processes_are_preloaded() -> None:
    """Let `multiprocessing` start its processes through the preloader, because each would import everything again."""
    multiprocessing.set_executable(launcher())


@pytest.fixture(scope="session", autouse=True)
def one_graph() -> Iterator[None]:
    """Load the graph of the text encoder once, which hundreds of applications in this process would do otherwise."""
    from online.models.encoders import minilm

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minilm, "open_graph", functools.lru_cache(maxsize=4)(minilm.open_graph))
        yield


@pytest.fixture(scope="session", autouse=True)
def one_empty_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let a new store in SQLite begin as a copy of an empty one, because creating its tables takes ten times as long."""
    from sqlalchemy import Engine, make_url

    from online.store.database import schema, store
    from online.store.database.engine import create_engine_for, is_sqlite

    empty = tmp_path_factory.mktemp("empty") / "online.db"
    url = f"sqlite:///{empty}"
    engine = create_engine_for(url, "NORMAL", "DEFERRED")
    schema.prepare_schema(url, engine)
    engine.dispose()
    tables = schema.list_groups()

    def prepare_copy(url: str, reader: Engine) -> None:
        file = Path(make_url(url).database or "") if is_sqlite(url) else None
        if file is not None and file.is_file() and not file.stat().st_size and schema.list_groups() == tables:
            file.write_bytes(empty.read_bytes())
        schema.prepare_schema(url, reader)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "prepare_schema", prepare_copy)
        yield


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service with a model of every kind, for tests that neither stop it nor roll it back.

    Its models have learned something, because any other test may run before, and teach them. A test that needs to know
    what a model has learned, or that it has learned nothing, starts its own service.
    """
    folder = tmp_path_factory.mktemp("service")
    running = Service(folder / "state", config(folder))
    teach_every_model(running)
    yield running
    running.stop()


def teach_every_model(service: Service) -> None:
    """Give each model some feedback, and wait until it is learned."""
    service.wait_learned("chat", 1)
    for model, items in TAUGHT.items():
        with service.client(model) as client:
            receipts = client.feedback(items)
            client.wait_until_learned(receipts[-1]["offset"], 60)


Start = Callable[..., Service]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start services on the test's own state folder: start(models, setting=value, ...). They are killed afterwards.

    Where coverage is measured they are stopped instead: a killed process leaves no record of the lines that it ran.
    """
    running: list[Service] = []

    def start_service(models: str = MODELS, flags: tuple[str, ...] = (), **settings: str | int | float) -> Service:
        running.append(Service(tmp_path / "state", config(tmp_path, models, **settings), *flags))
        return running[-1]

    yield start_service
    is_measured = any(name.startswith("COVERAGE_") for name in os.environ)
    for service in running:
        if service.process.poll() is None:
            service.process.terminate() if is_measured else service.process.kill()
            service.process.wait()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(os.environ.get("ONLINE_SHARED_DATA", "../shared/data"))
    if not folder.exists():
        pytest.skip(f"no public data at {folder} (ONLINE_SHARED_DATA)")
    return folder


@pytest.fixture(scope="session")
def redis_url() -> str:
    from redis import Redis
    from redis.exceptions import RedisError

    url = os.environ.get("ONLINE_TEST_REDIS", "redis://127.0.0.1:6379/15")
    try:
        Redis.from_url(url, socket_connect_timeout=1).ping()
    except RedisError as error:
        skip_or_fail(f"no Redis at {url}: {error}")
    return url


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """A database for one test, dropped afterwards."""
    yield from create_database()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> "Iterator[Store]":
    """An empty store, in each of the two databases."""
    from online.store import Store

    sqlite = f"sqlite:///{tmp_path / 'online.db'}"
    store = Store(sqlite if request.param == "sqlite" else str(request.getfixturevalue("postgres_url")))
    yield store
    store.close()


def create_database() -> Iterator[str]:
    """Create a database on Postgres; yield its URL, then drop it."""
    import uuid

    from sqlalchemy import text
    from sqlalchemy.exc import SQLAlchemyError

    base = os.environ.get("ONLINE_TEST_POSTGRES", "postgresql+psycopg://postgres@127.0.0.1:5432")
    name = f"online_test_{uuid.uuid4().hex[:12]}"
    url = f"{base}/{name}"
    try:
        with connect_as_admin(url) as admin:
            admin.execute(text(f"CREATE DATABASE {name}"))
    except (SQLAlchemyError, ImportError) as error:
        skip_or_fail(f"no Postgres at {base}: {str(error).splitlines()[0]}")
    yield url
    with connect_as_admin(url) as admin:
        admin.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture(scope="session")
def driven(tmp_path_factory: pytest.TempPathFactory) -> "Driven":
    """The exported logs of a service that was driven, by model: see `export_driven`."""
    from tests.evaluation.driven import export_driven  # it imports `config` from here

    return export_driven(tmp_path_factory.mktemp("parity"))
