"""Pruning of old rows: what is deleted, what is kept, and where the next step goes on."""

from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select

from online.plugins.openai.messages import MESSAGES, add_message
from online.plugins.shadow.tables import SHADOW_ANSWERS, ShadowAnswerRow, add_shadow_answers
from online.store import Store
from online.store.conversations.conversations import CONVERSATIONS, add_turns
from online.store.conversations.turns import TURNS, RequestedTurn
from online.store.deletion.retention import measure_predictions, prune_conversations, prune_oldest, prune_predictions
from online.store.feedback import FeedbackRow, add_feedback
from online.store.predictions import PREDICTIONS, add_predictions


def day(number: int) -> str:
    return f"2026-01-{number:02d}T12:00:00.000000+00:00"


def row(number: int, prefix: str = "", input: str = '"hello"') -> dict[str, Any]:
    """A prediction of a day."""
    asked = {"id": f"{prefix}06{number:04d}", "model": "m", "version": 1, "learned_until": 0, "user": "ada"}
    answered = {"input": input, "features": b"\x01", "choice": "a", "propensity": 1.0, "candidates": "[]"}
    return {**asked, **answered, "created_at": day(number)}


def rate(connection: Connection, prediction_id: str) -> None:
    fields: dict[str, Any] = {
        "model": "m",
        "id": f"f-{prediction_id}",
        "offset": 1,
        "content": "{}",
        "input": None,
        "user": "ada",
    }
    feedback = FeedbackRow(**fields, prediction_id=prediction_id, created_at=day(1), retracted_offset=None)
    add_feedback(connection, [feedback.model_dump()])


def ids(connection: Connection) -> list[str]:
    return sorted(connection.scalars(select(PREDICTIONS.c.id)))


def count(connection: Connection, table: Any) -> int:
    return connection.scalar(select(func.count()).select_from(table)) or 0


def test_old_predictions_without_feedback_are_deleted_with_all_that_refers_to_them(store: Store) -> None:
    rows = [row(number) for number in (1, 2, 3, 20)]

    def fill(connection: Connection) -> None:
        add_predictions(connection, rows)
        add_turns(connection, "m", [{**each, "turn": RequestedTurn("c", "hello", ())} for each in rows])
        add_message(connection, "m", rows[0]["id"], "message")
        shadows = [ShadowAnswerRow(prediction_id=each["id"], model="m", version=1, choice="a") for each in rows]
        add_shadow_answers(connection, shadows)
        rate(connection, rows[1]["id"])

    store.submit(fill).result()
    step = store.submit(lambda connection: prune_predictions(connection, "plain", day(10), 100)).result()
    assert (step.seen, step.deleted) == (3, 2)
    assert store.read(ids) == [rows[1]["id"], rows[3]["id"]]
    for table, left in ((TURNS, 2), (SHADOW_ANSWERS, 2), (MESSAGES, 0), (CONVERSATIONS, 1)):
        assert store.read(partial(count, table=table)) == left


def test_each_step_goes_on_where_the_last_one_ended(store: Store) -> None:
    def fill(connection: Connection) -> None:
        add_predictions(connection, [row(number) for number in range(1, 10)])
        rate(connection, row(1)["id"])

    store.submit(fill).result()
    steps = [
        store.submit(lambda connection: prune_predictions(connection, "plain", day(8), 3)).result() for _ in range(4)
    ]
    assert [(step.seen, step.deleted) for step in steps] == [(3, 2), (3, 3), (1, 1), (0, 0)]
    assert store.read(ids) == [row(number)["id"] for number in (1, 8, 9)]


def test_ids_with_a_prefix_are_pruned_by_their_own_age(store: Store) -> None:
    rows = [row(1, "chatcmpl-"), row(9, "chatcmpl-"), row(2), row(8)]
    store.submit(lambda connection: add_predictions(connection, rows)).result()
    assert store.submit(lambda connection: prune_predictions(connection, "prefixed", day(5), 9)).result().deleted == 1
    assert store.submit(lambda connection: prune_predictions(connection, "plain", day(5), 9)).result().deleted == 1
    assert store.read(ids) == sorted([rows[1]["id"], rows[3]["id"]])


def test_the_oldest_of_both_kinds_come_first(store: Store) -> None:
    rows = [row(1, "chatcmpl-"), row(2), row(3, "chatcmpl-"), row(4)]
    store.submit(lambda connection: add_predictions(connection, rows)).result()
    left = []
    for _ in range(5):
        store.submit(lambda connection: prune_oldest(connection, 1)).result()
        left.append(len(store.read(ids)))
        assert store.read(ids) == sorted(each["id"] for each in rows[4 - left[-1] :])
    assert left == [3, 2, 1, 0, 0]


def test_an_old_conversation_is_deleted_as_its_user_would(store: Store) -> None:
    old, new = row(1), row(2)

    def fill(connection: Connection) -> None:
        add_predictions(connection, [old, new])
        add_turns(
            connection,
            "m",
            [{**old, "turn": RequestedTurn("old", "hello", ())}, {**new, "turn": RequestedTurn("new", "x", ())}],
        )
        connection.execute(CONVERSATIONS.update().where(CONVERSATIONS.c.id == "old").values(updated_at=day(1)))

    store.submit(fill).result()
    assert store.submit(lambda connection: prune_conversations(connection, day(2), 9)).result() == 1
    assert store.submit(lambda connection: prune_conversations(connection, day(2), 9)).result() == 0
    inputs = store.read(
        lambda connection: dict(connection.execute(select(PREDICTIONS.c.id, PREDICTIONS.c.input)).all())
    )
    assert inputs == {old["id"]: "null", new["id"]: '"hello"'}


def test_the_size_of_predictions_is_estimated_from_the_newest(store: Store) -> None:
    store.submit(lambda connection: add_predictions(connection, [row(n, input="x" * 1_000) for n in (1, 2)])).result()
    found = store.read(measure_predictions)
    assert found.rows == 2 and found.total_bytes == 2 * (200 + 1_000 + 1 + 2)


def test_looking_for_feedback_uses_its_index(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'online.db'}")
    query = "EXPLAIN QUERY PLAN SELECT prediction_id FROM feedback WHERE prediction_id IN ('a', 'b')"
    plan = store.read(lambda connection: str(connection.exec_driver_sql(query).all()))
    store.close()
    assert "feedback_by_prediction" in plan
