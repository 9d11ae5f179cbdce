"""A service that was driven with everything people do, exported and replayed: the same counts, the same state."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from online.client import Client
from online.evaluation.replay import Contender, Replay
from online.evaluation.scores import LabelScore
from online.evaluation.sources import open_source
from tests.conftest import REPERTOIRE, config
from tests.support import Service, run_online, until

MODELS = """
[[models]]
name = "chat"
kind = "ranker"
options = { policy = "epsilon", epsilon = 0.3 }

[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 4, scale = 4.0 }

[[models]]
name = "rv"
kind = "river"
"""
TURNS, LATE, RETRACTED, USERS = 120, 0.1, 0.03, 12
QUESTIONS = [(question, str(reply["id"])) for reply in REPERTOIRE for question in reply["examples"]]


class Drive:
    """People at one model: thumbs, labels and corrections, some late, some taken back, two users erased in the end."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client, self.draw = client, random.Random(seed)
        self.late: list[tuple[int, dict[str, Any]]] = []
        self.head = 0

    def run(self) -> None:
        self.head = self.client.status()["head"]
        self.client.predict([self.instance()[0]], min_offset=self.head, timeout_ms=20_000, record=False)
        for turn in range(TURNS):
            self.late = [due for due in self.late if not self.tell_if_due(turn, *due)]
            self.turn(turn)
        for _, feedback in self.late:
            self.tell(feedback)
        for user in ("user 1", "user 2"):
            erased = self.client.erase(user)
            assert erased["feedback"] > 0 and erased["predictions"] > 0
            self.head = max(self.head, erased["offset"])

    def turn(self, turn: int) -> None:
        instance, right = self.instance()
        user = f"user {self.draw.randrange(USERS)}"
        self.client.user = user
        known = self.head if self.draw.random() < 0.5 else 0  # half of them will not wait for what was told last
        asked = self.client.predict([instance], min_offset=known, timeout_ms=20_000)
        feedback = {"prediction_id": asked["prediction_ids"][0], "user": user, **self.opinion(asked, right)}
        if self.draw.random() < 0.1:
            return  # nobody says anything
        if self.draw.random() < LATE:
            self.late.append((turn + self.draw.randrange(2, 30), feedback))
        else:
            self.tell(feedback)

    def tell_if_due(self, turn: int, due: int, feedback: dict[str, Any]) -> bool:
        if turn >= due:
            self.tell(feedback)
        return turn >= due

    def tell(self, feedback: dict[str, Any]) -> None:
        receipt = self.client.feedback([feedback])[0]
        self.head = receipt["offset"]
        if self.draw.random() < RETRACTED:
            self.head = self.client.retract(receipt["id"])["offset"]

    def instance(self) -> tuple[Any, str]:
        match self.client.model:
            case "chat":
                return self.draw.choice(QUESTIONS)
            case "vec":
                right = self.draw.randrange(4)
                return [float(place == right) + self.draw.gauss(0, 0.4) for place in range(4)], str(right)
            case _:
                size = self.draw.randrange(10)
                return {"size": size, "noise": self.draw.random()}, "big" if size > 4 else "small"

    def opinion(self, asked: dict[str, Any], right: str) -> dict[str, Any]:
        shown = asked["predictions"][0]
        given = (shown.get("reply") or {}).get("id") if "reply" in shown else shown["label"]
        if given is None or self.draw.random() < 0.3:
            if self.client.model == "chat" and self.draw.random() < 0.3:
                return {"correction": f"A new reply about {right}, number {self.draw.randrange(9)}."}
            return {"label": right}
        return {"reward": float(given == right)}


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, Any]]]:
    """model -> (its exported log, the newest version's manifest)."""
    folder = tmp_path_factory.mktemp("parity")
    path = folder / "online.toml"
    text = config(folder, MODELS)
    path.write_text(text)
    names, live = ("chat", "vec", "rv"), dict[str, Any]()
    service = Service(folder / "state", text)
    try:
        for seed, name in enumerate(names):
            with service.client(name) as client:
                drive = Drive(client, seed)
                drive.run()
                until(lambda: client.status()["learned_until"] >= drive.head, 60, "everything to be learned")  # noqa: B023
    finally:
        service.stop()
    made = dict[str, tuple[Path, dict[str, Any]]]()
    for name, packed in zip(names, ("", ".gz", ".zst"), strict=True):
        listed = run_online(
            "versions", "--config", str(path), "--state", str(folder / "state"), "--model", name, "--json"
        )
        live[name] = json.loads(listed.stdout)["versions"][0]
        log = folder / f"{name}.jsonl{packed}"
        done = run_online(
            "log",
            "export",
            "--config",
            str(path),
            "--state",
            str(folder / "state"),
            "--model",
            name,
            "--output",
            str(log),
        )
        assert done.returncode == 0, done.stderr
        made[name] = log, live[name]
    return made


@pytest.mark.parametrize(("name", "kind"), [("chat", "ranker"), ("vec", "classifier"), ("rv", "river")])
def test_a_replay_gives_every_answer_every_count_and_the_state_again(
    driven: dict[str, tuple[Path, dict[str, Any]]], name: str, kind: str
) -> None:
    log, live = driven[name]
    replay = Replay(open_source(str(log)), Contender(kind))
    replay.run()
    report, metrics = replay.report(), live["metrics"]
    assert report.asked == TURNS and report.same_answers == TURNS
    assert report.events == metrics["events"] == live["learned_until"]
    assert report.figures["served_rated"] == metrics["rated"] > TURNS / 2
    assert report.figures["served_right"] == metrics["right"] > 0
    assert report.state_sha256 == live["state_sha256"]
    assert isinstance(replay.score, LabelScore)
    assert replay.score.hits["model"] == replay.score.hits["served"]  # the model is what was served
    assert len(report.drift) == metrics["drift_alarms"]


def test_nothing_a_user_said_or_asked_is_left_in_words(driven: dict[str, tuple[Path, dict[str, Any]]]) -> None:
    lines = [json.loads(line) for line in driven["chat"][0].read_text().splitlines()[1:]]
    users = {line[kind]["user"] for line in lines for kind in line}
    assert "user 3" in users and not users & {"user 1", "user 2"}
    erased = [line["asked"] for line in lines if "asked" in line and line["asked"]["user"] is None]
    assert erased and all(asked["input"] is None and asked["features"] for asked in erased)


def test_another_kind_that_reads_the_words_does_without_the_erased_ones(
    driven: dict[str, tuple[Path, dict[str, Any]]],
) -> None:
    log, _ = driven["rv"]
    replay = Replay(open_source(str(log)), Contender("classifier", {"input": "table"}))
    replay.run()
    report = replay.report()
    assert 0 < report.examples < TURNS and report.bad == 0 and report.figures["accuracy"] is not None
