"""Scenes that many tests play in."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import Service, absent

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


def config(folder: Path, models: str = MODELS, **settings: str | int | float) -> str:
    """A TOML config with the small repertoire beside it."""
    path = folder / "repertoire.jsonl"
    path.write_text("\n".join(json.dumps(reply) for reply in REPERTOIRE))
    lines = [f"{name} = {json.dumps(value)}" for name, value in {"repertoire": str(path), **settings}.items()]
    return "\n".join(lines) + "\n" + models


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service with a model of every kind, for tests that do not stop it or roll it back."""
    folder = tmp_path_factory.mktemp("service")
    running = Service(folder / "state", config(folder))
    yield running
    running.stop()


Start = Callable[..., Service]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts services on the test's own state folder: start(models, setting=value, ...). All are gone afterwards."""
    running: list[Service] = []

    def started(models: str = MODELS, flags: tuple[str, ...] = (), **settings: str | int | float) -> Service:
        running.append(Service(tmp_path / "state", config(tmp_path, models, **settings), *flags))
        return running[-1]

    yield started
    for service in running:
        if service.process.poll() is None:
            service.process.kill()
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
        absent(f"no Redis at {url}: {error}")
    return url


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """A database of the test's own, dropped afterwards."""
    import uuid

    from sqlalchemy import create_engine, text
    from sqlalchemy.exc import SQLAlchemyError

    base = os.environ.get("ONLINE_TEST_POSTGRES", "postgresql+psycopg://postgres@127.0.0.1:5432")
    name = f"online_test_{uuid.uuid4().hex[:12]}"
    admin = create_engine(f"{base}/postgres", isolation_level="AUTOCOMMIT")
    try:
        with admin.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
    except (SQLAlchemyError, ImportError) as error:
        absent(f"no Postgres at {base}: {str(error).splitlines()[0]}")
    yield f"{base}/{name}"
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()
