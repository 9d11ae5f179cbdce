"""What people who ask a running service get while its policy explores: no reply to something else, and a bounded share of tries."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import Replay
from online.evaluation.sources.opening import open_source
from tests.conftest import Start, config
from tests.evaluation.driven import export_log
from tests.models.ranker.test_exploration import QUESTION, SOMETHING_ELSE, TAUGHT
from tests.support import Service

LIBRARY = Path(__file__).parents[3] / "data" / "repertoire.jsonl"
CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
EAGER = (
    CHAT
    + """
[models.options]
policy = "epsilon"
epsilon = 1.0
min_chance = 0.0
abstain_below = -1.0
abstain_margin = -1000.0
explore_below = 1.0
explore_floor = 0.0
"""
)


def ask(service: Service, user: str | None, questions: Sequence[str]) -> list[dict[str, Any]]:
    with service.client("chat", user) as client:
        return [dict(each) for each in client.predict(list(questions))["predictions"]]


def is_tried(prediction: dict[str, Any]) -> bool:
    return bool(prediction["propensity"] < 1 and prediction["reply"]["id"] != prediction["candidates"][0]["id"])


@pytest.mark.long
def test_a_reply_that_was_just_taught_is_not_given_to_people_who_asked_something_else(start: Start) -> None:
    """The example of the README, on its repertoire."""
    service = start(CHAT, repertoire=str(LIBRARY))
    service.wait_learned("chat", 1)
    with service.client("chat", "ann") as client:
        answer = client.predict([QUESTION])
        receipt = client.teach(answer["prediction_ids"][0], TAUGHT)
        again = client.predict(["Is there a charger for my car?"], min_offset=receipt["offset"])
        assert dict(again["predictions"][0])["reply"] is not None
        assert again["predictions"][0]["candidates"][0]["text"] == TAUGHT
    for number, question in enumerate(SOMETHING_ELSE):
        prediction = ask(service, f"visitor {number}", [question])[0]
        assert prediction["reply"] is None or prediction["reply"]["text"] != TAUGHT
        assert prediction["abstained"] or prediction["score"] >= 0.3


def test_a_user_gets_another_reply_than_the_best_in_a_tenth_of_the_answers_at_most(start: Start) -> None:
    service = start(EAGER)
    service.wait_learned("chat", 1)
    questions = [f"What about the book number {n}?" for n in range(40)]
    one_by_one = [ask(service, "ann", [question])[0] for question in questions]
    together = ask(service, "ben", questions)
    for answers in (one_by_one, together):
        assert 1 <= sum(map(is_tried, answers)) <= 4
        assert Counter(each["propensity"] for each in answers)[1.0] >= 30


def test_a_log_in_which_a_user_used_the_share_up_is_replayed_with_the_same_answers_and_the_same_state(
    start: Start, tmp_path: Path
) -> None:
    service = start(EAGER)
    service.wait_learned("chat", 1)
    with service.client("chat", "ann") as client:
        for number in range(30):
            answer = client.predict([f"What about the book number {number}?"])
            item = {"prediction_id": answer["prediction_ids"][0], "reward": number % 2}
            head = int(client.feedback([item])[0]["offset"])
            client.wait_until_learned(head, 60)
    (tmp_path / "online.toml").write_text(config(tmp_path, EAGER))
    log, live = export_log(service, tmp_path, "chat", head, "chat.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    propensities = [line["prediction"]["propensity"] for line in lines if "prediction" in line]
    assert propensities.count(1.0) >= 20 and min(propensities) < 1
    replay = Replay(open_source(str(log)), CandidateSpec("ranker"))
    replay.run()
    report = replay.report()
    assert report.same_answers == report.asked == 30
    assert report.state_sha256 == live["state_sha256"]
