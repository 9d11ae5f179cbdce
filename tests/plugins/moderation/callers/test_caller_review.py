"""The review of callers: whom others agree with, whom they contradict, and what operators decide about it."""

import pytest
from sqlalchemy import Connection

from online.errors import NotFound
from online.plugins.moderation.callers.influence import Influence
from online.plugins.moderation.callers.standing import set_state
from online.schemas.feedback import FeedbackItem
from online.serving.event_feed import FeedEvent, FeedQueue
from online.serving.feedback.recording import prepare_item
from online.store import now
from online.store.predictions import load_predictions
from tests.plugins.moderation.callers.scene import Scene, caller

HONEST = [caller(f"honest-{n}") for n in range(6)]
TOPICS = range(8)


@pytest.fixture
def crowd(scene: Scene) -> Scene:
    """Six callers that agree about eight topics."""
    for each in HONEST:
        for topic in TOPICS:
            assert scene.say(each, topic, f"class-{topic}").status == "accepted"
    scene.learn()
    return scene


def test_callers_that_others_agree_with_are_established_and_what_was_held_of_them_is_learned(crowd: Scene) -> None:
    waits = crowd.say(HONEST[0], 3, "class-3")
    assert waits.status == "held"
    crowd.run(crowd.review.review())
    assert {crowd.state(each.id) for each in HONEST} == {"established"}
    assert crowd.run(crowd.feedback.load_outcome(waits.id, HONEST[0])).status == "accepted"
    assert crowd.say(HONEST[0], 3, "class-3").status == "accepted"  # it may say more from now on


def test_a_caller_that_others_contradict_is_set_apart_and_leaves_no_trace_in_the_model(crowd: Scene) -> None:
    before = crowd.fingerprint
    liar = caller("liar")
    for topic in TOPICS:
        crowd.say(liar, topic, f"class-{(topic + 1) % 8}")
    assert crowd.fingerprint != before
    crowd.run(crowd.review.review())
    assert crowd.state("liar") == "quarantined"
    assert crowd.learned("liar") == 0
    assert crowd.fingerprint == before
    assert crowd.say(liar, 1, "class-1").status == "held"


def test_a_caller_that_only_speaks_up_where_the_model_is_wrong_is_not_set_apart(crowd: Scene) -> None:
    critic = caller("critic")
    for topic in TOPICS:
        crowd.say(critic, topic, f"class-{topic}", choice="class-7" if topic != 7 else "class-0")
    crowd.run(crowd.review.review())
    assert crowd.state("critic") == "established"


def test_many_new_callers_that_push_one_answer_against_the_others_are_set_apart(crowd: Scene) -> None:
    crowd.run(crowd.review.review())
    brigade = [caller(f"new-{n}") for n in range(10)]
    for number, each in enumerate(brigade):
        crowd.say(each, number % 7, "class-7")
    crowd.run(crowd.review.review())
    assert {crowd.state(each.id) for each in brigade} == {"quarantined"}
    row = crowd.standing("new-0")
    assert row is not None
    assert row.reason == "it is one of 10 new callers that push 'class-7' within an hour, against all others"


def test_nobody_vouches_for_itself(scene: Scene) -> None:
    lonely = caller("lonely")
    for _ in range(10):
        scene.say(lonely, 1, "a")
    scene.run(scene.review.review())
    assert (scene.state("lonely"), scene.learned("lonely")) == ("new", 1)


def test_visitors_at_one_address_do_not_vouch_for_each_other(scene: Scene) -> None:
    for number in range(4):
        one = caller(f"visitor:{number}", address="203.0.113.7", is_visitor=True)
        for topic in TOPICS:
            scene.say(one, topic, f"class-{topic}")
    scene.run(scene.review.review())
    assert {scene.state(f"visitor:{number}") for number in range(4)} == {"new"}


def test_curators_are_not_reviewed(scene: Scene) -> None:
    for topic in TOPICS:
        scene.say(caller("cora", "curate"), topic, "a")
    assert scene.run(scene.review.review()) is None


def test_what_nobody_agrees_with_expires_with_the_window(scene: Scene) -> None:
    scene.say(caller("ann"), 1, "a")
    held = scene.say(caller("ann"), 2, "a")
    short = scene.settings.model_copy(update={"influence_window_hours": 1e-9})
    scene.review.influence = Influence(short, scene.model.spec)
    events = scene.model.feed.subscribe()
    scene.run(scene.review.review())
    assert [(event.name, event.owner, event.data["id"]) for event in sent(events)] == [("rejected", "ann", held.id)]
    outcome = scene.run(scene.feedback.load_outcome(held.id, caller("ann")))
    assert (outcome.status, outcome.reason) == ("rejected", "nobody else agreed in time, so it was not learned")


def sent(queue: FeedQueue) -> list[FeedEvent]:
    """The events of a subscription so far."""
    return [event for _ in range(queue.qsize()) if (event := queue.get_nowait()) is not None]


@pytest.fixture
def quarantined(crowd: Scene) -> Scene:
    for topic in TOPICS:
        crowd.say(caller("liar"), topic, f"class-{(topic + 1) % 8}")
    crowd.run(crowd.review.review())
    return crowd


def test_an_operator_releases_a_caller_and_all_it_said_is_learned_again(quarantined: Scene) -> None:
    row = quarantined.run(quarantined.holders.release("liar", "key:op"))
    assert (row.state, row.decided_by) == ("released", "key:op")
    assert quarantined.learned("liar") == len(TOPICS)
    quarantined.run(quarantined.review.review())
    assert quarantined.state("liar") == "released"  # the review leaves it alone


def test_an_operator_drops_all_that_a_caller_said(quarantined: Scene) -> None:
    before = quarantined.fingerprint
    quarantined.run(quarantined.holders.drop("liar", "key:op"))
    quarantined.run(quarantined.holders.drop("honest-0", "key:op"))
    assert quarantined.learned("liar") == quarantined.learned("honest-0") == 0
    assert quarantined.fingerprint != before
    with pytest.raises(NotFound):
        quarantined.run(quarantined.holders.drop("nobody", "key:op"))


def test_a_caller_is_sent_which_of_its_held_feedback_was_dropped(quarantined: Scene) -> None:
    events = quarantined.model.feed.subscribe()
    quarantined.run(quarantined.holders.drop("liar", "key:op"))
    rejected = [event for event in sent(events) if event.name == "rejected"]
    assert len({event.data["id"] for event in rejected}) == len(rejected) == len(TOPICS)
    assert {event.owner for event in rejected} == {"liar"}


def test_feedback_of_a_curator_can_be_dropped_as_well(scene: Scene) -> None:
    empty = scene.fingerprint
    scene.say(caller("cora", "curate"), 1, "a")
    scene.run(scene.holders.drop("cora", "key:op"))
    assert scene.fingerprint == empty


def test_a_quarantine_that_was_cut_short_is_completed_by_the_next_review(quarantined: Scene) -> None:
    before, late = quarantined.fingerprint, quarantined.ask(caller("liar"), 5)
    item = FeedbackItem(id="late", prediction_id=late, label="class-1")

    def record(connection: Connection) -> None:
        """Feedback that is stored although its holder is set apart, as of a moment before."""
        prediction = load_predictions(connection, "m", [late])[late]
        quarantined.feedback.recorder.record_item(connection, prepare_item(item), prediction, "liar", 1)
        set_state(connection, "m", "liar", "quarantined", "cut short", "review", now())

    quarantined.store.submit(record).result()
    assert quarantined.fingerprint != before
    quarantined.run(quarantined.review.review())
    assert quarantined.learned("liar") == 0
    assert quarantined.fingerprint == before


def test_what_was_held_of_a_caller_stays_held_once_it_is_set_apart(crowd: Scene) -> None:
    liar = caller("liar")
    for topic in TOPICS:
        crowd.say(liar, topic, f"class-{(topic + 1) % 8}")
    crowd.run(crowd.review.review())
    honest_for_once = crowd.say(liar, 2, "class-2")
    crowd.run(crowd.review.review())
    assert crowd.run(crowd.feedback.load_outcome(honest_for_once.id, liar)).status == "held"
