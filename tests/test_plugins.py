"""Plugins: what the core asks of them, and the example that somebody else would install."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from online.installed import ContributedParts, check_requirements, collect_one, list_plugins
from online.learning.workers import WorkerSupport
from online.plugin import Plugin
from tests.conftest import config
from tests.support import Service

EXAMPLE = Path(__file__).parent.parent / "examples" / "plugin"
MODELS = """
[[models]]
name = "chat"
kind = "ranker"

[[models]]
name = "last"
kind = "last_label"
options = { input = "vector", size = 2 }
"""


def test_every_folder_is_a_plugin_with_its_own_name() -> None:
    folders = {path.parent.name for path in Path("online/plugins").glob("*/plugin.py")}
    assert folders == {plugin.name for plugin in list_plugins() if type(plugin).__module__.startswith("online.")}


def test_a_plugin_with_a_table_forgets_erased_users() -> None:
    silent = [
        plugin.name
        for plugin in list_plugins()
        if list(plugin.tables()) and type(plugin).forget_user is Plugin.forget_user
    ]
    assert silent == []


def test_a_plugin_imports_only_the_plugins_that_it_requires() -> None:
    found = set()
    for plugin in list_plugins():
        for path in Path(f"online/plugins/{plugin.name}").rglob("*.py"):
            for line in path.read_text().splitlines():
                words = line.split()
                if words[:1] in (["from"], ["import"]) and words[1].startswith("online.plugins."):
                    found.add((plugin.name, words[1].split(".")[2]))
    declared = {
        (plugin.name, other) for plugin in list_plugins() for other in (*plugin.requires, *plugin.uses, plugin.name)
    }
    assert found <= declared, sorted(found - declared)


def test_two_plugins_with_a_hook_that_one_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Second(Plugin):
        def worker_support(self) -> WorkerSupport:
            return WorkerSupport()

    assert collect_one("worker_support", None) is not None
    assert collect_one("feedback_review", None) is not None
    monkeypatch.setattr("online.installed.list_plugins", lambda: (*list_plugins(), Second()))
    with pytest.raises(ValueError, match=r"2 plugins have the hook 'worker_support'.*uninstall all but one"):
        collect_one("worker_support", WorkerSupport())


def test_a_plugin_without_one_that_it_requires_is_refused_by_name() -> None:
    plugins = [plugin for plugin in list_plugins() if plugin.name != "grpc"]
    with pytest.raises(ValueError, match="the plugin 'open_inference' needs the plugin 'grpc'; install that one"):
        check_requirements(plugins)


def test_a_part_is_found_by_its_class_or_the_lack_of_its_plugin_is_named() -> None:
    parts = ContributedParts([1])
    assert parts.find(int) == 1 and parts.list(int) == [1]
    with pytest.raises(LookupError, match="no installed plugin contributes a str"):
        parts.find(str)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example plugin as pip installs it, in a folder of its own."""
    folder = tmp_path_factory.mktemp("installed")
    flags = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *flags, str(EXAMPLE)], check=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def service(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("plugin")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{installed}:{Path.cwd()}")
        running = Service(folder / "state", config(folder, MODELS, max_bookmarks=2))
        yield running
        running.stop()


def test_the_example_plugin_adds_a_route_a_table_and_a_setting(service: Service) -> None:
    url = f"{service.url}/v1/models/chat/bookmarks"
    for prediction in ("a", "b", "b", "c"):
        assert httpx.post(url, json={"prediction_id": prediction}).status_code == 201
    assert httpx.get(url).json() == {"bookmarks": ["a", "b"]}
    assert "/v1/models/{model}/bookmarks" in httpx.get(f"{service.url}/openapi.json").json()["paths"]


def test_the_example_plugin_adds_a_kind(service: Service) -> None:
    with service.client("last") as client:
        receipts = client.feedback([{"input": [0, 1], "label": "first"}, {"input": [1, 0], "label": "second"}])
        client.wait_until_learned(receipts[-1]["offset"], 60)
        assert client.predict([[0, 1]])["predictions"][0]["label"] == "second"


def test_the_example_plugin_adds_a_page(service: Service) -> None:
    page = httpx.get(f"{service.url}/bookmarks")
    assert page.status_code == 200 and "<h1>Bookmarks</h1>" in page.text
    assert "frame-ancestors" in page.headers["content-security-policy"]
