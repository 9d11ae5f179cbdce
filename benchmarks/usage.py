"""Measures how long usage figures take in a store with many predictions, and what counting them costs.

    direct      the same figures from the tables of predictions and feedback, as without counts
    summary     from the counts: 90 days by day, 30 days by day, 24 hours by hour, a year by month
    questions   the most asked questions of 30 days

Predictions are spread evenly over --days; --rated of them have a thumb. Times are the medians of --repeat warm reads, in milliseconds.
"""

import statistics
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from benchmarks.report import command, create_parser, percentile, print_json, progress, say, table, verdict
from online.plugins.usage.calendar import Unit, find_zone, floor_to_quarter
from online.plugins.usage.questions import load_features, load_questions
from online.plugins.usage.summary import UsageRange, summarize_usage
from online.plugins.usage.top_questions import MAX_GROUPED, MAX_PREDICTIONS, collect_texts, group_by_meaning
from online.schemas.events import Event
from online.store import Store
from online.store.database.meta import save_kind
from online.store.events import EVENTS, append_events
from online.store.feedback import FEEDBACK, add_feedback
from online.store.predictions import PREDICTIONS, add_predictions
from online.store.usage.counts import count_predictions
from online.store.usage.ratings import count_page

PAGE = 5_000
QUESTIONS = 2_000  # different ones
FEATURES = 384  # bytes
TARGET_MS, QUESTIONS_TARGET_MS = 300.0, 1_000.0
RANGES: tuple[tuple[str, int, Unit], ...] = (
    ("90 days by day", 90, "day"),
    ("30 days by day", 30, "day"),
    ("24 hours by hour", 1, "hour"),
    ("a year by month", 365, "month"),
)


@contextmanager
def open_store(url: str | None) -> Iterator[Store]:
    with tempfile.TemporaryDirectory(prefix="online-benchmark-") as folder:
        store = Store(url or f"sqlite:///{Path(folder) / 'online.db'}")
        store.submit(lambda connection: save_kind(connection, "m", "ranker")).result()
        yield store
        store.close()


def fill(store: Store, args: Namespace, until: datetime) -> float:
    """Store predictions and thumbs; return the seconds that counting the predictions took."""
    rng, counting_s = np.random.default_rng(args.seed), 0.0
    step = timedelta(days=args.days) / args.predictions
    vectors = [rng.integers(-127, 128, FEATURES).astype(np.int8).tobytes() for _ in range(QUESTIONS)]
    for first in progress(range(0, args.predictions, PAGE), "storing predictions"):
        numbers = range(first, min(first + PAGE, args.predictions))
        asked = (QUESTIONS * rng.random(len(numbers)) ** 3).astype(int)
        rows = [
            {
                "id": f"{number:032x}",
                "model": "m",
                "version": 1,
                "learned_until": 0,
                "user": None,
                "input": f'"How do I do thing number {question}?"',
                "features": vectors[question],
                "choice": None if question % 20 == 0 else f"reply {question % 100}",
                "propensity": 1.0,
                "candidates": "[]",
                "created_at": (until - timedelta(days=args.days) + number * step).isoformat(),
            }
            for number, question in zip(numbers, asked, strict=True)
        ]
        store.submit(partial(add_predictions, rows=rows), durable=False).result()
        began = time.perf_counter()
        store.submit(partial(measure_counting, rows=rows), durable=False).result()
        counting_s += time.perf_counter() - began
        rated = [row for row in rows if row["choice"] and rng.random() < args.rated]
        store.submit(partial(add_thumbs, rows=rated), durable=False).result()
    return counting_s


def measure_counting(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Count rows once more, and undo it."""
    with connection.begin_nested() as savepoint:
        count_predictions(connection, rows)
        savepoint.rollback()


def add_thumbs(connection: Connection, rows: list[dict[str, Any]]) -> None:
    events = [
        Event(f"f{row['id']}", "reward", row["features"], row["choice"], reward=float(n % 5 > 0), choice=row["choice"])
        for n, row in enumerate(rows)
    ]
    offsets = append_events(connection, "m", events, new=True)
    add_feedback(
        connection,
        [
            {
                "model": "m",
                "id": event.id,
                "offset": offset,
                "content": "{}",
                "prediction_id": row["id"],
                "created_at": row["created_at"],
                "caller": "local",
            }
            for event, offset, row in zip(events, offsets, rows, strict=True)
        ],
    )


def count_ratings(store: Store) -> float:
    """Count all ratings; return the seconds it took."""
    began = time.perf_counter()
    while not store.submit(lambda connection: count_page(connection, "m"), durable=False).result().is_complete:
        pass
    return time.perf_counter() - began


def time_ms(read: Callable[[], object], repeat: int) -> list[float]:
    read()
    times = list[float]()
    for _ in range(repeat):
        began = time.perf_counter()
        read()
        times.append(1_000 * (time.perf_counter() - began))
    return times


def count_directly(store: Store, since: datetime, until: datetime) -> object:
    """Figures by day without counts."""
    day = func.substr(PREDICTIONS.c.created_at, 1, 10)
    span = (PREDICTIONS.c.model == "m", PREDICTIONS.c.created_at.between(since.isoformat(), until.isoformat()))
    asked = select(day, func.count(), func.count(PREDICTIONS.c.choice)).where(*span).group_by(day)
    joined = FEEDBACK.join(PREDICTIONS, PREDICTIONS.c.id == FEEDBACK.c.prediction_id).join(
        EVENTS, (EVENTS.c.model == FEEDBACK.c.model) & (EVENTS.c.id == FEEDBACK.c.id)
    )
    good = func.sum(EVENTS.c.body.like('%"reward":1%'))
    rated = select(day, func.count(), good).select_from(joined).where(*span, FEEDBACK.c.retracted_offset.is_(None))
    return store.read(lambda c: (c.execute(asked).all(), c.execute(rated.group_by(day)).all()))


def find_questions(store: Store, since: datetime, until: datetime) -> object:
    span = since.isoformat(), until.isoformat()
    sample = store.read(lambda c: load_questions(c, "m", *span, newest=MAX_PREDICTIONS))
    texts = collect_texts(sample.questions)[:MAX_GROUPED]
    features = store.read(lambda c: load_features(c, [each.newest for each in texts]))
    return group_by_meaning(texts, features)


def judge(name: str, median_ms: float) -> str:
    if "direct" in name:
        return ""
    return verdict(median_ms, QUESTIONS_TARGET_MS if "questions" in name else TARGET_MS, " ms")


def run() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--predictions", type=int, default=1_000_000)
    parser.add_argument("--rated", type=float, default=0.3, help="share of the answers with a thumb")
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", help="URL of an empty database; default: a SQLite file")
    args = parser.parse_args()
    until, zone = floor_to_quarter(datetime.now(UTC)), find_zone("Europe/Berlin")
    with open_store(args.store) as store:
        counting_s = fill(store, args, until)
        rating_s = count_ratings(store)
        say(f"stored {args.predictions:,} predictions")
        times = dict[str, list[float]]()
        if args.store is None:
            times["90 days by day, direct"] = time_ms(
                lambda: count_directly(store, until - timedelta(days=90), until), 1
            )
        for name, days, unit in RANGES:
            span = UsageRange(until - timedelta(days=days), until, zone)
            summarize = partial(summarize_usage, model="m", span=span, unit=unit)
            times[name] = time_ms(partial(store.read, summarize), args.repeat)
        times["top questions"] = time_ms(lambda: find_questions(store, until - timedelta(days=30), until), 3)
    counting_us, rating_us = 1e6 * counting_s / args.predictions, 1e6 * rating_s / (args.predictions * args.rated)
    medians = {name: statistics.median(values) for name, values in times.items()}
    if args.json:
        print_json({"median_ms": medians, "counting_us": counting_us, "rating_us": rating_us})
        return 0
    rows = [
        (
            name,
            medians[name],
            percentile(values, 90),
            judge(name, medians[name]),
        )
        for name, values in times.items()
    ]
    table(f"{args.predictions:,} predictions, {args.rated:.0%} rated", ("figures", "ms", "p90 ms", "target"), rows)
    table("cost", ("of", "us"), [("a prediction, counted", counting_us), ("a rating, counted", rating_us)])
    return 0


if __name__ == "__main__":
    command(run)
