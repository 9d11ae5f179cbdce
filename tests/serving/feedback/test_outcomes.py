"""What became of feedback is told to its caller, also where the learner is faster than the acknowledgement."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from online.schemas.feedback import FeedbackItem
from online.serving.feedback.recording import prepare_item
from online.serving.processes.store_messages import SubmitFeedback
from tests.plugins.moderation.callers.scene import Scene, caller


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.close()


def test_feedback_that_was_learned_before_it_was_acknowledged_is_told_at_once(scene: Scene) -> None:
    ann = caller("ann", "curate")
    item = FeedbackItem(id="f", prediction_id=scene.ask(ann, 1), label="a", user="ann")

    async def overtake() -> list[tuple[str, str | None]]:
        events = scene.model.feed.subscribe()
        receipts = await scene.feedback.store.perform(SubmitFeedback("m", [prepare_item(item)], ann, []))
        scene.learn()
        scene.learner.save()
        await scene.model.live.refresh()
        await scene.model.outcomes.flush()
        before = [events.get_nowait() for _ in range(events.qsize())]
        assert "learned" not in [event.name for event in before if event is not None]
        scene.feedback.note_acknowledged(receipts)
        await scene.model.outcomes.flush()
        after = [events.get_nowait() for _ in range(events.qsize())]
        return [(event.name, event.owner) for event in after if event is not None]

    assert scene.run(overtake()) == [("learned", "ann")]
    assert len(scene.model.outcomes.freshness_ms) == 1 and not scene.feedback.acknowledged
