"""Arranges labelled rows in time: a prediction for each row, and an event when its label arrives.

rows --> LoggedPrediction(row) ... LoggedEvent(its label)
         at once, or after a delay: a number of rows, seconds, or the time in a column
"""

import heapq
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from online.errors import BadInput
from online.evaluation.replay.tasks import HELD_OUT_EVERY
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.labelled_rows import Row
from online.evaluation.sources.log_format import Line, LoggedEvent, LoggedPrediction
from online.schemas.events import Entry, Event


@dataclass(frozen=True, slots=True)
class Delay:
    """When a label arrives.

    rows: after so many further rows. by: so much later than the time in the column `at`, in the unit
    of that column. column: at the time in this column.
    """

    rows: int = 0
    by: float = 0.0
    at: str = ""
    column: str = ""

    @classmethod
    def parse(cls, text: str, at: str) -> "Delay":
        """Parse `48` rows, `3600s` after the time in the column `at`, or a column's name. Raises BadInput."""
        if text.isdigit():
            return cls(rows=int(text))
        if text.endswith("s") and text[:-1].replace(".", "", 1).isdigit():
            if not at:
                raise BadInput(f"--delay {text} needs the column of the times, --at COLUMN")
            return cls(by=float(text[:-1]), at=at)
        if not at:
            raise BadInput(
                f"--delay {text} names a column of arrival times: name the column of the questions' times with --at"
            )
        return cls(at=at, column=text)

    def as_text(self) -> str:
        """Return it as `parse` takes it, with the column of the times; "" for labels that arrive at once."""
        if self.column:
            return f"{self.column} after {self.at}"
        if self.at:
            return f"{self.by:g}s after {self.at}"
        return str(self.rows or "")


def arrange_rows(rows: Iterator[Row], delay: Delay, bad: BadLines, name: str) -> Iterator[Line]:
    """Yield a prediction for each row and an event when its label arrives.

    Labels that arrive together keep the order of their rows.
    """
    offset = 0

    def number_event(row: Row) -> LoggedEvent:
        nonlocal offset
        offset += 1
        return LoggedEvent(Entry(offset, build_event(row)), prediction_id=str(row.number))

    if not delay.at:
        waiting = deque[Row]()
        for row in rows:
            yield build_prediction(row)
            waiting.append(row)
            if len(waiting) > delay.rows:
                yield number_event(waiting.popleft())
        yield from map(number_event, waiting)
        return
    due: list[tuple[float, int, Row]] = []
    for row in rows:
        try:
            predicted_at, arrives_at = find_times(row, delay)
        except ValueError as error:
            bad.add(f"{name}, line {row.number}: {error}", row.number)
            continue
        while due and due[0][0] <= predicted_at:
            yield number_event(heapq.heappop(due)[2])
        yield LoggedPrediction(str(row.number), drop_column(row.instance, delay.column), at=str(row.rest[delay.at]))
        heapq.heappush(due, (arrives_at, row.number, row))
    while due:
        yield number_event(heapq.heappop(due)[2])


def build_prediction(row: Row) -> LoggedPrediction:
    if row.reward is None:
        return LoggedPrediction(str(row.number), row.instance)
    return LoggedPrediction(str(row.number), row.instance, choice=row.label, propensity=row.propensity)


def build_event(row: Row) -> Event:
    if row.reward is None:
        return Event(str(row.number), "label", label=row.label)
    return Event(str(row.number), "reward", label=row.label, reward=row.reward, choice=row.label)


def arrange_tasks(rows: Iterator[Row], task_column: str, delay: Delay, bad: BadLines, name: str) -> Iterator[Line]:
    """Arrange rows with their tasks, and hold out one row in HELD_OUT_EVERY of each task.

    The column of the task is removed from the instances: no model sees it.
    """
    tasks, counts = dict[str, str](), Counter[str]()
    held = list[LoggedPrediction]()

    def select_learned() -> Iterator[Row]:
        for row in rows:
            task = row.rest.get(task_column)
            if task in (None, ""):
                bad.add(f"{name}, line {row.number} has no task {task_column!r}", row.number)
                continue
            without_task = replace(row, instance=drop_column(row.instance, task_column))
            counts[str(task)] += 1
            if counts[str(task)] % HELD_OUT_EVERY == 0:
                held.append(
                    LoggedPrediction(
                        str(row.number),
                        without_task.instance,
                        feedback_count=0,
                        task=str(task),
                        held_out_class=row.label,
                    )
                )
            else:
                tasks[str(row.number)] = str(task)
                yield without_task

    for line in arrange_rows(select_learned(), delay, bad, name):
        if isinstance(line, LoggedPrediction):
            yield from held
            held.clear()
            line.task = tasks.pop(line.id)
        yield line
    yield from held


def drop_column(instance: Any, column: str) -> Any:
    return {key: value for key, value in instance.items() if key != column} if isinstance(instance, dict) else instance


def find_times(row: Row, delay: Delay) -> tuple[float, float]:
    """Return the times of the prediction and of its label, in seconds. Raises ValueError."""
    predicted_at = parse_seconds(row.rest, delay.at)
    arrives_at = parse_seconds(row.rest, delay.column) if delay.column else predicted_at + delay.by
    if arrives_at < predicted_at:
        raise ValueError(f"its label arrives at {row.rest[delay.column]}, before the question at {row.rest[delay.at]}")
    return predicted_at, arrives_at


def parse_seconds(row: Mapping[str, Any], column: str) -> float:
    """Return a number unchanged, and an ISO 8601 date and time as seconds since 1970. Raises ValueError."""
    value = row.get(column)
    if isinstance(value, (int, float)):
        return float(value)
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        raise ValueError(f"its column {column!r} holds {value!r}, which is neither a number nor a time") from None
