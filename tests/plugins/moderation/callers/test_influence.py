"""How much one caller may change before others agree with it."""

from collections.abc import Callable

import pytest

from online.errors import QuotaExceeded
from online.plugins.moderation import review
from tests.plugins.moderation.callers.scene import Scene, caller

ANN = caller("ann")


def test_a_new_caller_counts_once_for_each_reply_and_the_rest_waits(scene: Scene) -> None:
    statuses = [scene.say(ANN, topic, "a").status for topic in range(3)]
    assert statuses == ["accepted", "held", "held"]
    assert scene.learned("ann") == 1


def test_one_caller_with_many_thumbs_changes_no_more_than_its_share(start: Callable[..., Scene]) -> None:
    scene = start(feedback_per_hour=1_000, new_influence=2)
    for topic in range(20):
        scene.say(ANN, topic, f"c{topic}")
    assert scene.learned("ann") == 2
    assert scene.model.stream.head() == 2


def test_a_new_opinion_about_the_same_prediction_replaces_the_old_one_and_is_not_held(scene: Scene) -> None:
    id = scene.ask(ANN, 1, choice="a")
    assert scene.give(ANN, id, reward=1.0).status == "accepted"
    assert scene.give(ANN, id, reward=0.0).status == "accepted"
    assert scene.learned("ann") == 1


def test_a_curator_is_never_limited(scene: Scene) -> None:
    curator = caller("cora", "curate", "impersonate")
    assert {scene.say(curator, topic, "a").status for topic in range(30)} == {"accepted"}
    assert scene.state("cora") == "unknown"


def test_visitors_at_one_address_share_a_budget(start: Callable[..., Scene]) -> None:
    scene = start(new_influence_per_address=3)
    statuses = [
        scene.say(caller(f"visitor:{n}", address="203.0.113.7", is_visitor=True), n, f"c{n}").status for n in range(5)
    ]
    assert statuses == ["accepted"] * 3 + ["held"] * 2
    other = caller("visitor:x", address="203.0.113.8", is_visitor=True)
    assert scene.say(other, 9, "c9").status == "accepted"


def test_what_was_held_says_why(scene: Scene) -> None:
    scene.say(ANN, 1, "a")
    held = scene.say(ANN, 2, "a")
    outcome = scene.run(scene.feedback.load_outcome(held.id, ANN))
    assert outcome.status == "held"
    assert outcome.reason == "it waits until others agree, because you have said much about this already"


def test_held_feedback_of_one_caller_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review, "MAX_HELD", 2)
    for topic in range(3):
        scene.say(ANN, topic, "a")
    with pytest.raises(QuotaExceeded):
        scene.say(ANN, 4, "a")
    assert scene.say(caller("bob"), 4, "a").status == "accepted"  # the bound is each caller's own


def test_events_of_trusted_callers_name_no_holder(scene: Scene) -> None:
    scene.say(caller("cora", "curate"), 1, "a")
    scene.say(ANN, 1, "a")
    trusted, untrusted = (entry for entry in scene.model.stream.read(0, 10))
    assert '"holder"' not in trusted.body()
    assert untrusted.holder == 1
