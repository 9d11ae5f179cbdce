"""Matrices of a report, as tables with shades: which classes are confused, and which tasks are forgotten."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.reports.verdict import describe_pair
from online.evaluation.scoring.confusion import Confusion

OTHERS, NO_ANSWER = "other classes", "no answer"
MAX_WITH_SHARES = 8  # columns of a matrix whose cells also show a share


@dataclass(frozen=True, slots=True)
class Cell:
    """share: in percent, its shade. text: what it shows. words: what it means, for the pointer. kind: right, wrong or plain."""

    text: str
    share: int
    words: str = ""
    kind: str = "plain"


@dataclass(frozen=True, slots=True)
class Matrix:
    """across, down: what the columns and the rows are. rows: a label, and a cell for each column. points: listed below."""

    title: str
    term: str
    across: str
    down: str
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]
    caption: str
    points: list[str] = field(default_factory=list)
    points_title: str = ""


def build_confusion_matrix(report: ReplayReport) -> Matrix | None:
    """None if the model predicts no classes, or only one."""
    confusion = report.details.confusion
    if confusion is None or confusion.class_count < 2:
        return None
    names = [*confusion.classes, OTHERS, NO_ANSWER]
    used = [
        place
        for place in range(len(names))
        if place < len(confusion.classes) or any(row[place] for row in confusion.rows)
    ]
    rows = [
        (name, [*build_cells(name, row, names, used)])
        for name, row in zip(names, confusion.rows, strict=False)
        if sum(row)
    ]
    points = [f"{describe_pair(pair)}." for pair in confusion.pairs]
    caption = describe_matrix(confusion)
    title = f"Confusion matrix ({report.name})"
    columns = [names[place] for place in used]
    return Matrix(title, "confusion", "answered", "right class", columns, rows, caption, points, "Confused most often")


def build_cells(name: str, row: Sequence[int], names: Sequence[str], used: Sequence[int]) -> Iterator[Cell]:
    total = sum(row)
    for place in used:
        count, answer = row[place], names[place]
        kind = "plain" if name == answer == OTHERS else "right" if name == answer else "wrong"
        verb = {NO_ANSWER: "got no answer", OTHERS: "answered as another class"}.get(answer, f"answered as “{answer}”")
        words = f"“{name}” {verb}: {count:,} of {total:,} ({100 * count / total:.1f} %)" if count else ""
        yield Cell(f"{count:,}", round(100 * count / total), words, kind if count else "zero")


def describe_matrix(confusion: Confusion) -> str:
    classes = len(confusion.classes)
    which = (
        f"The {classes} most frequent of {confusion.class_count:,} classes"
        if confusion.class_count > classes
        else "All classes"
    )
    return f"{which}. A cell counts how often a class (row) got an answer (column); its shade is the share of the row."


def build_forgetting_matrix(report: ReplayReport) -> Matrix | None:
    tasks = report.tasks
    if tasks is None or len(tasks.ends) < 2:
        return None
    rows = [
        (
            name,
            [
                Cell(f"{100 * value:.0f}", round(100 * value), f"on {task} after {name}: {value:.1%}", "right")
                for task, value in zip(tasks.names, row, strict=False)
            ],
        )
        for name, row in zip(tasks.names, tasks.matrix(), strict=False)
    ]
    caption = "Accuracy in percent, on the held-out rows of each task. A column that gets paler downwards shows a task that is being forgotten."
    return Matrix(f"Forgetting ({report.name})", "tasks", "tested on", "after learning", [*tasks.names], rows, caption)
