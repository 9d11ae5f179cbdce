"""A service without a review of feedback: it admits whatever the scopes of a caller permit."""

import pytest

from online.errors import Forbidden
from online.schemas.access.callers import Caller
from online.serving.feedback.feedback_review import FeedbackReview
from tests.plugins.moderation.callers.scene import Scene, caller


@pytest.fixture
def unreviewed(scene: Scene) -> Scene:
    scene.feedback.recorder.review = FeedbackReview()
    return scene


def test_without_a_review_a_caller_may_say_as_much_as_its_scopes_permit(unreviewed: Scene) -> None:
    said = [unreviewed.say(caller("ann"), topic, "a") for topic in range(3)]
    assert [receipt.status for receipt in said] == ["accepted"] * 3 and unreviewed.standing("ann") is None


def test_without_a_review_nobody_teaches_who_lacks_the_scope(unreviewed: Scene) -> None:
    visitor = Caller("eve", frozenset({"predict", "feedback"}), user="eve", is_reviewed=True, is_visitor=True)
    with pytest.raises(Forbidden, match="needs the scope 'teach'"):
        unreviewed.say(visitor, 1, "a class of her own")
