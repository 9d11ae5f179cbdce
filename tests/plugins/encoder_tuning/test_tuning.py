"""The evaluation of a tuned encoder: on texts it was not tuned on, with a statistical test."""

import json
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest
from sqlalchemy import Connection

from online.errors import SetupError
from online.plugins.encoder_tuning.adapter import TuningExample, TuningOptions
from online.plugins.encoder_tuning.adoption import replace_features
from online.plugins.encoder_tuning.text_events import TextEvent, read_events_in_force, read_text_events
from online.plugins.encoder_tuning.tuning import FOLDS, EncoderComparison, EncoderTuning, assign_fold, build_lessons
from online.schemas.events import Event
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from online.store import now
from online.store.events import append_events
from online.store.feedback import FeedbackRow, add_feedback
from online.store.refusals import mark_refused

DRINKS = ["tea", "coffee", "milk", "water", "juice", "beer", "wine"]
QUICK = TuningOptions(layers=1, rank=8, epochs=8, pairs=16, rate=2e-3, distil=0.1)


def orders() -> list[tuple[str, str]]:
    """(text, drink): both drinks are named, and a frozen encoder hardly sees which of them is wanted."""
    wordings = ("bring me {0} instead of {1}", "{1} is not what I want, {0} is")
    return [(words.format(*pair), pair[0]) for pair in permutations(DRINKS, 2) for words in wordings]


def create_events(*events: tuple[str, Event]) -> list[TextEvent]:
    return [TextEvent(event.at(offset), text) for offset, (text, event) in enumerate(events, 1)]


def label(text: str, wanted: str) -> tuple[str, Event]:
    return text, Event(text, "label", label=wanted)


def thumb(text: str, choice: str, reward: float) -> tuple[str, Event]:
    return text, Event(f"{text}{reward}", "reward", label=choice, reward=reward)


# lessons


def test_the_last_feedback_on_a_text_is_its_lesson() -> None:
    learned = build_lessons(
        create_events(
            label("a", "one"),
            label("a", "two"),
            thumb("b", "one", 0.0),
            thumb("c", "one", 1.0),
            thumb("c", "one", 0.0),
            thumb("d", "one", 0.0),
            label("d", "one"),
        )
    )
    assert learned == [
        TuningExample("a", "two"),
        TuningExample("b", None, frozenset({"one"})),
        TuningExample("c", None, frozenset({"one"})),
        TuningExample("d", "one"),
    ]


def test_the_same_text_is_never_in_both_tuning_and_test() -> None:
    assert assign_fold("When do you open?") == assign_fold("  when do YOU  open?")
    assert {assign_fold(text) for text, _ in orders()} == set(range(FOLDS))


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    spec = ModelSettings(name="m", kind="classifier")
    workspace = Workspace(Settings(state=tmp_path / "state", models=(spec,)))
    yield workspace
    workspace.store.close()


def append(workspace: Workspace, event: Event, text: str | None = None) -> None:
    """Append an event. text: the text of its feedback, if any."""

    def record(connection: Connection) -> None:
        offset = append_events(connection, "m", [event])[0]
        if text is not None:
            row = FeedbackRow(
                model="m",
                id=event.id,
                offset=offset,
                content="",
                prediction_id=None,
                input=json.dumps({"text": text}),
                user=None,
                created_at=now(),
                retracted_offset=None,
            )
            add_feedback(connection, [row.model_dump()])

    workspace.store.submit(record).result()


def test_retracted_and_refused_events_are_not_read(workspace: Workspace) -> None:
    kept, retracted, refused = (Event(id, "label", bytes(384), "x") for id in ("kept", "gone", "refused"))
    for event in (kept, retracted, refused):
        append(workspace, event, text=f"a  text\n{event.id}")
    append(workspace, Event("gone#retraction", "retraction", bytes(384), target=retracted.at(2)))
    workspace.store.submit(lambda c: mark_refused(c, "m", "recipe", 3, "because")).result()
    assert read_events_in_force(workspace.store, "m", "recipe") == [TextEvent(kept.at(1), "a text kept")]


def test_sums_have_no_text_and_stay_as_they_are(workspace: Workspace) -> None:
    sums = Event("device", "sums", b"a file")
    append(workspace, sums)
    append(workspace, Event("device#retraction", "retraction", b"a file", target=sums.at(1)))
    events = read_text_events(workspace.store, "m")
    assert [each.text for each in events] == ["", ""]
    assert [replace_features(each, {}).features for each in events] == [b"a file", b"a file"]


def test_features_without_text_are_reported(workspace: Workspace) -> None:
    append(workspace, Event("old", "label", bytes(384), "x"))
    with pytest.raises(SetupError, match="no text for offset 1"):
        read_events_in_force(workspace.store, "m", "recipe")


# the evaluation


def test_the_comparison_is_an_exact_sign_test() -> None:
    assert EncoderComparison(100, 50, 50, 0, 0).chance == 1.0
    assert EncoderComparison(100, 50, 55, 5, 0).chance == pytest.approx(1 / 32)
    assert EncoderComparison(100, 50, 54, 5, 1).chance == pytest.approx(7 / 64)
    assert EncoderComparison(100, 50, 55, 5, 0).better and not EncoderComparison(100, 50, 54, 5, 1).better


@pytest.mark.long
def test_random_labels_show_no_improvement() -> None:
    arbitrary = [label(text, DRINKS[assign_fold(text * 3)]) for text, _ in orders()]
    assert (
        not EncoderTuning("classifier", {}, create_events(*arbitrary), TuningOptions(layers=1, epochs=1)).judge().better
    )


def test_a_tuned_encoder_is_evaluated_only_on_texts_it_was_not_tuned_on() -> None:
    first, again = orders()[:60], orders()
    events = create_events(*(label(text, drink) for text, drink in (*first, *again)))
    with pytest.raises(SetupError, match="24 questions have feedback since this encoder was tuned"):
        EncoderTuning("classifier", {}, events, QUICK, since=60).judge()


def test_too_few_texts_are_reported() -> None:
    with pytest.raises(SetupError, match="2 questions have feedback; comparing two encoders needs at least 50"):
        EncoderTuning("classifier", {}, create_events(label("a", "one"), label("b", "two")), QUICK).judge()


@pytest.mark.long
def test_after_a_thumb_down_any_other_answer_counts_as_right() -> None:
    replies = [(f"{drink} is coming", Event(drink, "reply", label=drink)) for drink in DRINKS]
    thumbs = [thumb(text, DRINKS[DRINKS.index(drink) - 1], 0.0) for text, drink in orders()[:50]]
    verdict = EncoderTuning("ranker", {}, create_events(*replies, *thumbs), TuningOptions(layers=1, epochs=1)).judge()
    assert verdict.judged == 50 and verdict.before > 25  # of seven drinks, most are another one


def test_an_encoder_that_answers_everything_right_leaves_nothing_to_gain() -> None:
    assert "no tuning can gain anything" in [*EncoderComparison(60, 60, 60, 0, 0).lines()][-1]
    assert "not proven better" in [*EncoderComparison(60, 59, 60, 1, 0).lines()][-1]
