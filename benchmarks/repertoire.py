"""Times what the repertoire page asks for, of a repertoire of --replies replies with --examples example questions each.

    replies, their questions, a rating of every third --> store --> a service without a learner

A page has 50 replies. Every search is for a word that the others did not have, in the texts, in the questions, and in neither.
"""

import random
import tempfile
from argparse import Namespace
from dataclasses import asdict
from functools import partial
from itertools import cycle
from pathlib import Path

import httpx
from sqlalchemy import Connection

from benchmarks.learning_page import Timing, measure_ms, serve
from benchmarks.report import command, create_parser, percentile, print_json, progress, say, table, verdict
from online.schemas.events import Event
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from online.store.database.meta import save_kind
from online.store.events import append_events
from online.store.repertoire.replies import add_reply
from online.store.usage.answer_ratings import AnswerRatings, add_answer_ratings

SPEC = ModelSettings(name="chat", kind="ranker")
CONFIG = """
[[models]]
name = "chat"
kind = "ranker"
"""
REPLIES = f"/v1/models/{SPEC.name}/replies"
PAGE = 500  # replies in one transaction
TARGET_MS = 100
REPEATS = 20
WORDS = (
    *(
        "about",
        "account",
        "archive",
        "basement",
        "borrow",
        "canteen",
        "card",
        "catalogue",
        "children",
        "collect",
        "computer",
    ),
    *(
        "copy",
        "deposit",
        "desk",
        "entrance",
        "extend",
        "fee",
        "form",
        "garden",
        "group",
        "holiday",
        "interlibrary",
        "journal",
    ),
    *(
        "key",
        "laptop",
        "licence",
        "locker",
        "magazine",
        "manuscript",
        "member",
        "microfilm",
        "newspaper",
        "opening",
        "order",
    ),
    *(
        "parking",
        "password",
        "photograph",
        "printer",
        "queue",
        "reading",
        "receipt",
        "renew",
        "reserve",
        "return",
        "room",
    ),
    *(
        "scanner",
        "shelf",
        "shelter",
        "silence",
        "staff",
        "stairs",
        "student",
        "telescope",
        "ticket",
        "tour",
        "umbrella",
        "wifi",
    ),
)
PATHS = {
    "first page": "?limit=50",
    "a page of the middle": "?limit=50&after={middle}",
    "most rated": "?limit=50&sort=most_rated",
    "A to Z": "?limit=50&sort=by_text",
    "never right": "?limit=50&show=never_right&sort=most_rated",
    "search, in many": "?limit=50&q={word}",
    "search, in one": "?limit=50&q=number+{number}x",
    "search, in none": "?limit=50&q={word}+nowhere",
    "one reply": "/r{number}",
    "all, as before": "",
}


def write_page(connection: Connection, numbers: range, examples: int, draw: random.Random) -> None:
    """Add replies with their example questions, and a rating of every third."""
    events = list[Event]()
    for number in numbers:
        id, text = f"r{number}", f"Number {number}: the {' '.join(draw.choices(WORDS, k=12))}."
        events.append(Event(f"{id}#reply", "reply", b"", id, text))
        for place in range(examples):
            question = f"Where is number {number}x the {' '.join(draw.choices(WORDS, k=6))}?"
            events.append(Event(f"{id}#{place}", "label", b"", id, question))
    offsets = append_events(connection, SPEC.name, events, new=True, source="repertoire")
    for event, offset in zip(events, offsets, strict=True):
        if event.kind == "reply":
            add_reply(connection, SPEC.name, event.label, event.text, offset)
    ratings = {f"r{number}": AnswerRatings(draw.randrange(3), draw.randrange(1, 9)) for number in numbers[::3]}
    add_answer_ratings(connection, SPEC.name, ratings)


def prepare(folder: Path, replies: int, examples: int) -> None:
    (folder / "online.toml").write_text(CONFIG)
    workspace, draw = Workspace(Settings(state=folder / "state", models=(SPEC,))), random.Random(1)
    say(f"writing {replies:,} replies with {examples} example questions each")
    try:
        workspace.store.submit(partial(save_kind, model=SPEC.name, kind=SPEC.kind)).result()
        for start in progress(range(0, replies, PAGE), "the replies"):
            numbers = range(start, min(start + PAGE, replies))
            write = partial(write_page, numbers=numbers, examples=examples, draw=draw)
            workspace.store.submit(write).result()
    finally:
        workspace.store.close()


def find_middle(client: httpx.Client, replies: int) -> str:
    """The value of `after` for a page of the middle of the list."""
    return str(client.get(REPLIES, params={"limit": min(1_000, max(1, replies // 2))}).json()["next"])


def time_request(client: httpx.Client, name: str, path: str, middle: str, replies: int) -> Timing:
    words, numbers = cycle(WORDS), cycle(range(replies // 3, replies))

    def call() -> httpx.Response:
        places = {"middle": middle, "word": next(words), "number": next(numbers)}
        return client.get(REPLIES + path.format(**places))

    first_ms, response = measure_ms(call)
    times = [measure_ms(call)[0] for _ in range(REPEATS)]
    return Timing(name, first_ms, percentile(times, 50), percentile(times, 95), len(response.content) / 1000)


def run() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--replies", type=int, default=10_000)
    parser.add_argument("--examples", type=int, default=5)
    arguments: Namespace = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="online-benchmark-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        prepare(folder, arguments.replies, arguments.examples)
        with serve(folder) as client:
            client.get(REPLIES, params={"limit": 1}).raise_for_status()
            middle = find_middle(client, arguments.replies)
            timings = [time_request(client, *each, middle, arguments.replies) for each in PATHS.items()]
    if arguments.json:
        print_json({"timings": [asdict(each) for each in timings]})
        return 0
    title = f"{arguments.replies:,} replies, {arguments.examples} example questions each: ms"
    table(title, ["request", "first", "median", "p95", "kB"], [list(asdict(each).values()) for each in timings])
    worst = max(timing.median_ms for timing in timings if timing.name != "all, as before")
    print(f"target {TARGET_MS} ms, median: {verdict(worst, TARGET_MS, ' ms')}")
    return 0


if __name__ == "__main__":
    command(run)
