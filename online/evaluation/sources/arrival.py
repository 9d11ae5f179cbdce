"""Arranges labelled rows in time: a prediction for each row, and an event when its label arrives.

rows --> LoggedPrediction(row) ... LoggedEvent(its label)
         at once, or after a delay: a number of rows, seconds, or the time in a column
"""

import heapq
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter

from online.errors import BadInput
from online.evaluation.replay.tasks import HELD_OUT_EVERY
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.labelled_rows import LabelledRow
from online.evaluation.sources.log_format import Line, LoggedEvent, LoggedPrediction
from online.io.instants import InstantColumn
from online.schemas.events import Event


@dataclass(frozen=True, slots=True)
class LabelDelay:
    """The delay of a label.

    rows: after so many further rows. by: so many seconds later than the time in the column `at`. column: at the time in
    this column. How times are read: `online.io.instants`.
    """

    rows: int = 0
    by: float = 0.0
    at: str = ""
    column: str = ""

    @classmethod
    def parse(cls, text: str, at: str) -> "LabelDelay":
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


def arrange_rows(
    rows: Iterator[LabelledRow], delay: LabelDelay, bad: BadLines, name: str, is_in_order: bool = True
) -> Iterator[Line]:
    """Yield a prediction for each row and an event when its label arrives.

    Labels that arrive together keep the order of their rows. is_in_order: False for rows that are sorted by their times first.
    """
    offset = 0

    def number_event(row: LabelledRow) -> LoggedEvent:
        nonlocal offset
        offset += 1
        return LoggedEvent(build_event(row).at(offset), prediction_id=str(row.number))

    if not delay.at:
        waiting = deque[LabelledRow]()
        for row in rows:
            yield build_prediction(row)
            waiting.append(row)
            if len(waiting) > delay.rows:
                yield number_event(waiting.popleft())
        yield from map(number_event, waiting)
        return
    due: list[tuple[float, int, LabelledRow]] = []
    timed = find_all_times(rows, delay, bad, name)
    for predicted_at, arrives_at, row in timed if is_in_order else sorted(timed, key=itemgetter(0)):
        while due and due[0][0] <= predicted_at:
            yield number_event(heapq.heappop(due)[2])
        yield LoggedPrediction(str(row.number), drop_column(row.instance, delay.column), at=str(row.rest[delay.at]))
        heapq.heappush(due, (arrives_at, row.number, row))
    while due:
        yield number_event(heapq.heappop(due)[2])


def build_prediction(row: LabelledRow) -> LoggedPrediction:
    """Return the prediction that a row stands for; with its own reward, the logged choice as well."""
    if row.reward is None:
        return LoggedPrediction(str(row.number), row.instance)
    return LoggedPrediction(str(row.number), row.instance, choice=row.label, propensity=row.propensity)


def build_event(row: LabelledRow) -> Event:
    """Return the event that a row's label or reward stands for."""
    if row.reward is None:
        return Event(str(row.number), "label", label=row.label)
    return Event(str(row.number), "reward", label=row.label, reward=row.reward, choice=row.label)


def arrange_tasks(
    rows: Iterator[LabelledRow], task_column: str, delay: LabelDelay, bad: BadLines, name: str, is_in_order: bool = True
) -> Iterator[Line]:
    """Arrange rows with their tasks, and hold out one row in HELD_OUT_EVERY of each task.

    The column of the task is removed from the instances: no model sees it.
    """
    tasks, counts = dict[str, str](), Counter[str]()
    held = list[LoggedPrediction]()

    def select_learned() -> Iterator[LabelledRow]:
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

    for line in arrange_rows(select_learned(), delay, bad, name, is_in_order):
        if isinstance(line, LoggedPrediction):
            yield from held
            held.clear()
            line.task = tasks.pop(line.id)
        yield line
    yield from held


def drop_column(instance: object, column: str) -> object:
    """Return an instance without a column."""
    return {key: value for key, value in instance.items() if key != column} if isinstance(instance, dict) else instance


def find_all_times(
    rows: Iterator[LabelledRow], delay: LabelDelay, bad: BadLines, name: str
) -> Iterator[tuple[float, float, LabelledRow]]:
    """Yield (time of the prediction, time of the label, row) in seconds, of rows that have both."""
    asked, arrived = InstantColumn(), InstantColumn()
    for row in rows:
        try:
            predicted_at = parse_time(row.rest, delay.at, asked)
            arrives_at = parse_time(row.rest, delay.column, arrived) if delay.column else predicted_at + delay.by
            if arrives_at < predicted_at:
                label, question = row.rest[delay.column], row.rest[delay.at]
                raise ValueError(f"its label arrives at {label}, before the question at {question}")
        except ValueError as error:
            bad.add(f"{name}, line {row.number}: {error}", row.number)
            continue
        yield predicted_at, arrives_at, row


def parse_time(row: Mapping[str, object], column: str, times: InstantColumn) -> float:
    """Return the time in a column in seconds. Raises ValueError."""
    try:
        return times.parse(row.get(column))
    except ValueError as error:
        raise ValueError(f"its column {column!r} holds {error}") from None


def are_in_order(rows: Iterator[LabelledRow], delay: LabelDelay) -> bool:
    """Return whether no row has an earlier time than the row before it."""
    times = (predicted_at for predicted_at, _, _ in find_all_times(rows, delay, BadLines(max_ratio=1.0), ""))
    return all(earlier <= later for earlier, later in pairwise(times))
