"""Matrices of a report, as tables with shades: which classes are confused, and which tasks are forgotten."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from online.evaluation.bases import has_known
from online.evaluation.remarks import describe_known_basis
from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.verdict import describe_pair
from online.evaluation.words import LanguageWords
from online.scoring.confusion import Confusion

MAX_WITH_SHARES = 8  # columns of a matrix whose cells also show a share


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """share: in percent, its shade. text: what it shows. words: what it means, for the pointer. kind: right, wrong or plain."""

    text: str
    share: int
    words: str = ""
    kind: str = "plain"


@dataclass(frozen=True, slots=True)
class MatrixTable:
    """across, down: what the columns and the rows are. rows: a label, and a cell for each column. points: listed below.

    basis: which answers it is of.
    """

    title: str
    term: str
    across: str
    down: str
    columns: list[str]
    rows: list[tuple[str, list[MatrixCell]]]
    caption: str
    points: list[str] = field(default_factory=list)
    points_title: str = ""
    basis: str = ""


def build_confusion_matrix(report: ReplayReport, words: LanguageWords) -> MatrixTable | None:
    """Return None if the model predicts no classes, or only one, or if the right one is not known of most answers."""
    confusion = report.details.confusion
    if confusion is None or confusion.class_count < 2:
        return None
    count = sum(map(sum, confusion.rows))
    if not has_known(report, count):
        return None
    names = [*confusion.classes, words("confusion.others"), words("confusion.no_answer")]
    used = [
        place
        for place in range(len(names))
        if place < len(confusion.classes) or any(row[place] for row in confusion.rows)
    ]
    rows = [
        (names[place], [*build_cells(place, row, names, used, words)])
        for place, row in enumerate(confusion.rows)
        if sum(row)
    ]
    points = [f"{words.say(describe_pair(pair))}." for pair in confusion.pairs]
    caption = describe_matrix(confusion, words)
    title = words("confusion", name=report.name)
    columns = [names[place] for place in used]
    return MatrixTable(
        title,
        "confusion",
        words("confusion.across"),
        words("confusion.down"),
        columns,
        rows,
        caption,
        points,
        words("confusion.points"),
        describe_known_basis(count, report, words),
    )


def build_cells(
    right: int, row: Sequence[int], names: Sequence[str], used: Sequence[int], words: LanguageWords
) -> Iterator[MatrixCell]:
    """right: the place of the class among the names, of which the last two stand for other classes and for no answer."""
    total, others = sum(row), len(names) - 2
    for place in used:
        count = row[place]
        kind = "plain" if right == place == others else "right" if right == place else "wrong"
        key = {others: "cell.other", others + 1: "cell.no_answer"}.get(place, "cell.answered")
        values: dict[str, object] = {"answer": names[place]} if key == "cell.answered" else {}
        values |= {"name": names[right], "count": count, "total": total, "share": 100 * count / total}
        shown = words.number(count, ",")
        yield MatrixCell(
            shown, round(100 * count / total), words(key, **values) if count else "", kind if count else "zero"
        )


def describe_matrix(confusion: Confusion, words: LanguageWords) -> str:
    """Return the caption of a confusion matrix."""
    classes, total = len(confusion.classes), confusion.class_count
    which = words("confusion.some", count=classes, total=total) if total > classes else words("confusion.all")
    return f"{which} {words('confusion.caption')}"


def build_forgetting_matrix(report: ReplayReport, words: LanguageWords) -> MatrixTable | None:
    """Build the matrix of accuracies by task, after each task; None with fewer than two tasks."""
    tasks = report.tasks
    if tasks is None or len(tasks.ends) < 2:
        return None
    rows = [
        (
            name,
            [
                MatrixCell(
                    f"{100 * value:.0f}",
                    round(100 * value),
                    words("forgetting.cell", task=task, name=name, share=value),
                    "right",
                )
                for task, value in zip(tasks.names, row, strict=False)
            ],
        )
        for name, row in zip(tasks.names, tasks.matrix(), strict=False)
    ]
    return MatrixTable(
        words("forgetting", name=report.name),
        "tasks",
        words("forgetting.across"),
        words("forgetting.down"),
        [*tasks.names],
        rows,
        words("forgetting.caption"),
    )
