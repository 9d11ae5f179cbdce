"""Langfuse's own Python client, in three of its versions, against a real service."""

from pathlib import Path

import pytest

from tests.conftest import config
from tests.long.clients.environments import environment, run_client
from tests.plugins.chat_pages.test_langfuse import CHAT, KEYS, ask, head, trace_of
from tests.support import Service


@pytest.mark.parametrize("version", ["2.60.10", "3.14.5", "5.0.4"])
def test_its_scores_are_learned_and_its_check_of_the_keys_succeeds(tmp_path: Path, version: str) -> None:
    python = environment(f"langfuse-{version}", [f"langfuse=={version}"])
    service = Service(tmp_path / "state", config(tmp_path, CHAT, **KEYS))
    try:
        service.wait_learned("chat", 15)
        traces = [trace_of(ask(service)) for _ in range(3)]
        before = head(service)
        assert run_client(python, "langfuse_calls", service.url, *traces)["keys"] is True
        assert head(service) == before + 3
    finally:
        service.stop()
