"""The judgement of a tuned encoder: on what it never saw, and with a proof or none."""

import json
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest
from sqlalchemy import Connection

from online import store
from online.errors import SetupError
from online.learning.adapting import FOLDS, Adaptation, Said, Verdict, fold_of, lessons_of, read_said
from online.models.adapter import Lesson, Tuning
from online.schemas import Entry, Event, Target
from online.settings import ModelSettings, Settings
from online.stream import append_events
from online.workspace import Workspace

DRINKS = ["tea", "coffee", "milk", "water", "juice", "beer", "wine"]
QUICK = Tuning(layers=1, rank=8, epochs=8, pairs=16, rate=2e-3, distil=0.1)


def orders() -> list[tuple[str, str]]:
    """(text, drink): both drinks are named, and a frozen encoder hardly sees which of them is wanted."""
    wordings = ("bring me {0} instead of {1}", "{1} is not what I want, {0} is")
    return [(words.format(*pair), pair[0]) for pair in permutations(DRINKS, 2) for words in wordings]


def said(*events: tuple[str, Event]) -> list[Said]:
    return [Said(Entry(offset, event), text) for offset, (text, event) in enumerate(events, 1)]


def label(text: str, wanted: str) -> tuple[str, Event]:
    return text, Event(text, "label", label=wanted)


def thumb(text: str, choice: str, reward: float) -> tuple[str, Event]:
    return text, Event(f"{text}{reward}", "reward", label=choice, reward=reward)


# what was said, as lessons


def test_the_last_word_about_a_text_is_its_lesson() -> None:
    learned = lessons_of(
        said(
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
        Lesson("a", "two"),
        Lesson("b", None, frozenset({"one"})),
        Lesson("c", None, frozenset({"one"})),
        Lesson("d", "one"),
    ]


def test_the_same_words_are_never_on_both_sides() -> None:
    assert fold_of("When do you open?") == fold_of("  when do YOU  open?")
    assert {fold_of(text) for text, _ in orders()} == set(range(FOLDS))


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    spec = ModelSettings(name="m", kind="classifier")
    made = Workspace(Settings(state=tmp_path / "state", models=(spec,)))
    yield made
    made.store.close()


def happen(workspace: Workspace, event: Event, asked: str | None = None) -> None:
    """Append an event, as feedback on a text of its own where one is given."""

    def record(connection: Connection) -> None:
        offset = append_events(connection, "m", [event])[0]
        if asked is not None:
            row = store.FeedbackRow(
                model="m",
                id=event.id,
                offset=offset,
                content="",
                prediction_id=None,
                input=json.dumps({"text": asked}),
                user=None,
                created_at=store.now(),
                retracted_offset=None,
            )
            store.add_feedback(connection, [row.model_dump()])

    workspace.store.submit(record).result()


def test_what_was_retracted_or_refused_is_not_read(workspace: Workspace) -> None:
    kept, gone, refused = (Event(id, "label", bytes(384), "x") for id in ("kept", "gone", "refused"))
    for event in (kept, gone, refused):
        happen(workspace, event, asked=f"a  text\n{event.id}")
    happen(workspace, Event("gone#retraction", "retraction", bytes(384), target=Target(2, gone)))
    workspace.store.submit(lambda c: store.mark_refused(c, "m", "recipe", 3, "because")).result()
    assert read_said(workspace.store, "m", "recipe") == [Said(Entry(1, kept), "a text kept")]


def test_features_without_their_text_are_said(workspace: Workspace) -> None:
    happen(workspace, Event("old", "label", bytes(384), "x"))
    with pytest.raises(SetupError, match="no text for offset 1"):
        read_said(workspace.store, "m", "recipe")


# the judgement


def test_the_proof_is_an_exact_sign_test() -> None:
    assert Verdict(100, 50, 50, 0, 0).chance == 1.0
    assert Verdict(100, 50, 55, 5, 0).chance == pytest.approx(1 / 32)
    assert Verdict(100, 50, 54, 5, 1).chance == pytest.approx(7 / 64)
    assert Verdict(100, 50, 55, 5, 0).better and not Verdict(100, 50, 54, 5, 1).better


def test_what_is_arbitrary_proves_nothing() -> None:
    arbitrary = [label(text, DRINKS[fold_of(text * 3)]) for text, _ in orders()]
    assert not Adaptation("classifier", {}, said(*arbitrary), Tuning(layers=1, epochs=1)).judge().better


def test_an_encoder_that_was_tuned_is_only_judged_on_words_it_was_not_tuned_on() -> None:
    first, again = orders()[:60], orders()
    events = said(*(label(text, drink) for text, drink in (*first, *again)))
    with pytest.raises(SetupError, match="24 questions were taught since this encoder was tuned"):
        Adaptation("classifier", {}, events, QUICK, since=60).judge()


def test_an_encoder_is_compared_with_the_one_in_use() -> None:
    events = said(*(label(text, drink) for text, drink in orders()))
    tuned = Adaptation("classifier", {}, events, QUICK).tuned(events)
    frozen = Adaptation("classifier", {}, events, QUICK).judge()
    used = Adaptation("classifier", {}, events, QUICK, used=tuned).judge()
    assert used.before > frozen.before and used.after == frozen.after and not used.better


def test_too_little_is_said() -> None:
    with pytest.raises(SetupError, match="2 questions were taught; a proof takes at least 50"):
        Adaptation("classifier", {}, said(label("a", "one"), label("b", "two")), QUICK).judge()


def test_a_thumb_down_is_done_right_by_whoever_answers_otherwise() -> None:
    replies = [(f"{drink} is coming", Event(drink, "reply", label=drink)) for drink in DRINKS]
    thumbs = [thumb(text, DRINKS[DRINKS.index(drink) - 1], 0.0) for text, drink in orders()[:50]]
    verdict = Adaptation("ranker", {}, said(*replies, *thumbs), Tuning(layers=1, epochs=1)).judge()
    assert verdict.judged == 50 and verdict.before > 25  # of seven drinks, most are another one
