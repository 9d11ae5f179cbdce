"""Two logs, and models of which some kill their worker, for tests on a real Ray cluster."""

import importlib.util
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.ray_replay import replay_on_ray
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.replay_report import LogResults
from online.evaluation.replay.results_cache import ResultsFolder
from online.evaluation.sources.opening import open_sources
from online.evaluation.sources.replay_source import ReadOptions, Source
from tests.evaluation.replaying import write_blobs
from tests.support import skip_or_fail

ROOT = Path(__file__).parents[3]
DEATHS = "ONLINE_TEST_DEATHS"  # names the file in which workers write that they are about to die
WRONG = CandidateSpec("classifier", {"head": "no such head"}, "wrong")
SMALL = {"hidden": [4]}
MORTAL = CandidateSpec("tower", {**SMALL, "network": "tests.evaluation.replay.ray_scene:mortal"}, "mortal", every=10)
DOOMED = CandidateSpec("tower", {**SMALL, "network": "tests.evaluation.replay.ray_scene:doomed"}, "doomed", every=10)


def mortal(inputs: int) -> torch.nn.Module:
    """A network that kills the first process that creates it, as the system does if memory runs out."""
    if not count_deaths("mortal"):
        die("mortal")
    return torch.nn.Linear(inputs, 4)


def doomed(inputs: int) -> torch.nn.Module:
    die("doomed")
    return torch.nn.Linear(inputs, 4)


def die(name: str) -> None:
    with open(os.environ[DEATHS], "a") as file:
        file.write(f"{name}\n")
    os.kill(os.getpid(), signal.SIGKILL)


def count_deaths(name: str) -> int:
    return Path(os.environ[DEATHS]).read_text().splitlines().count(name)


def ignore_message(words: str) -> None:
    pass


def two_logs(folder: Path) -> list[Source]:
    first, second = write_blobs(folder, 300), folder / "second.jsonl"
    second.write_text("".join(first.read_text().splitlines(keepends=True)[:100]))
    return open_sources([str(first), str(second)], ReadOptions())


@pytest.fixture(scope="module", autouse=True)
def with_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Require Ray, and let its workers import these tests."""
    if importlib.util.find_spec("ray") is None:
        skip_or_fail("Ray is not installed: pip install 'online[ray]'")
    deaths = tmp_path_factory.mktemp("deaths") / "deaths"
    deaths.write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DEATHS, str(deaths))
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("PYTHONBREAKPOINT", "")  # otherwise Ray sets it, and does not remove it again
        yield


class Scene:
    """Two logs replayed with several models on a cluster of their own."""

    def __init__(self, folder: Path, candidates: Sequence[CandidateSpec]) -> None:
        self.folder, self.messages = folder, list[str]()
        self.sources, self.candidates = two_logs(folder), candidates
        self.ticks = list[int]()
        self.replayed = self.replay_all()

    def replay_all(self) -> list[LogResults]:
        results = ResultsFolder.opened(self.folder / "replays", self.messages.append)
        return replay_on_ray(
            "", results, self.sources, self.candidates, ScoredSpan(), lambda _, done, of: self.ticks.append(done)
        )
