"""Fixtures of the learner's tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from online.learning import publisher
from tests.learning.scene import Scene

CreateScene = Callable[..., Scene]


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a durable version whenever the test asks for one: on a busy disk a learner would rest, and resume from an older one."""
    monkeypatch.setattr(publisher, "SLOW_S", 60.0)


@pytest.fixture
def create_scene(tmp_path: Path) -> Iterator[CreateScene]:
    """Create scenes in the test's own folder: create_scene(kind, options). Their stores are closed afterwards."""
    scenes: list[Scene] = []

    def create(*arguments: Any, **options: Any) -> Scene:
        scenes.append(Scene(tmp_path, *arguments, **options))
        return scenes[-1]

    yield create
    for scene in scenes:
        scene.workspace.store.close()


@pytest.fixture
def scene(create_scene: CreateScene) -> Scene:
    return create_scene()
