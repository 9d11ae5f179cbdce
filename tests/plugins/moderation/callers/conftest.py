from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.moderation.callers.scene import Scene


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    scenes: list[Scene] = []

    def start_scene(**settings: Any) -> Scene:
        scenes.append(Scene(tmp_path, **settings))
        return scenes[-1]

    yield start_scene
    for scene in scenes:
        scene.close()


@pytest.fixture
def scene(start: Callable[..., Scene]) -> Scene:
    return start()
