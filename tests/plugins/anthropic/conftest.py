"""A service with routers in front of real endpoints, and with a ranker."""

from collections.abc import Iterator

import anthropic
import pytest

from tests.conftest import config
from tests.plugins.anthropic.scripted_upstream import ScriptedUpstream, serve_script
from tests.plugins.router.fake_upstream import FakeUpstream, serve_fake
from tests.plugins.router.test_routed_chat import models
from tests.support import Service

ROUTERS = {  # name -> the models of its routes
    "router": {"small": "say:from small", "large": "say:from large"},
    "echo": {"only": "echo"},
    "tools": {"only": "tools"},
    "cut": {"only": "cut"},
    "refuse": {"only": "refuse"},
    "broken": {"only": "broken"},
}


@pytest.fixture(scope="package")
def fake() -> Iterator[FakeUpstream]:
    with serve_fake() as upstream:
        yield upstream


@pytest.fixture(scope="package")
def script_server() -> Iterator[ScriptedUpstream]:
    with serve_script() as upstream:
        yield upstream


@pytest.fixture
def scripted(script_server: ScriptedUpstream) -> ScriptedUpstream:
    """Return the endpoint with its first script: five answers that cannot be read would open the circuit breaker of its route."""
    script_server.script = ScriptedUpstream().script
    return script_server


@pytest.fixture(scope="package")
def served(
    tmp_path_factory: pytest.TempPathFactory, fake: FakeUpstream, script_server: ScriptedUpstream
) -> Iterator[Service]:
    tables = [configure(name, fake, routes) for name, routes in ROUTERS.items()]
    of_script = configure("scripted", fake, {"only": "scripted"}).replace(fake.url, script_server.url)
    others = '[[models]]\nname = "chat"\nkind = "ranker"\n[[models]]\nname = "lab"\nkind = "classifier"\n'
    others += 'options = { input = "vector", size = 2 }\n'
    folder = tmp_path_factory.mktemp("messages")
    service = Service(folder / "state", config(folder, "".join([*tables, of_script, others]), max_body_bytes=100_000))
    service.wait_learned("chat", 1)
    yield service
    service.stop()


def configure(name: str, fake: FakeUpstream, routes: dict[str, str]) -> str:
    return models(fake, routes, explore=0.0).replace('name = "router"', f'name = "{name}"', 1)


@pytest.fixture(scope="package")
def client(served: Service) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=served.url, api_key="anything", max_retries=0) as client:
        yield client
