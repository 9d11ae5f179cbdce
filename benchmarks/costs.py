"""Prints what a service costs: memory, processor time and bytes on disk, and the size of a version by its classes and replies.

    a service for each model --1,000 predictions, 1,000 labels--> processor seconds, resident memory, growth of the database
    a model alone            --more classes, more replies-------> bytes of its state: read by servers, and on disk

Requests hold 10 instances. Processor time is that of the service's processes, not of this client, so a busy machine changes it little.
"""

import json
import sqlite3
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.inputs import labelled_sentences, vectors
from benchmarks.report import command, create_parser, print_json, say, table
from benchmarks.service import CHAT, ROOT, TXT, VEC, BenchmarkError, Service, running_service
from online.client import Client
from online.models import Model, create
from online.models.contract import Example

COUNT = 1_000
SIZE = 10  # instances of a request
WARM_UP = 100
WAIT_S = 60.0
WIDTH = 384  # int8 features of a text
MODELS = {
    "classifier, 30 numbers": ("vec", VEC),
    "classifier, texts": ("txt", TXT),
    "ranker, 135 replies": ("chat", CHAT),
}
PROCESSES = ("server", "learner", "store")


def measure_service(name: str, config: str) -> dict[str, float]:
    """Start a service with one model, and return what it took for COUNT predictions and for a label on each."""
    with running_service(config) as service, Client(f"http://{service.host}:{service.port}", name) as client:
        database = Database(service.log.parent / "state" / "online.db")
        labelled = draw_inputs(name)
        ask(client, labelled[COUNT:])
        wait_until(lambda: database.count("prediction") == WARM_UP)
        before, bytes_before = service.cpu_s(), database.bytes()
        ids = ask(client, labelled[:COUNT])
        wait_until(lambda: database.count("prediction") == COUNT + WARM_UP)
        asked, bytes_asked = service.cpu_s(), database.bytes()
        teach(client, ids, [label for _, label in labelled[:COUNT]])
        taught, bytes_taught = service.cpu_s(), database.bytes()
        figures = {f"{each}_mb": megabytes for each, megabytes in service.memory_mb().items()}
        figures |= {f"predict_{each}_s": asked[each] - before[each] for each in PROCESSES}
        figures |= {f"teach_{each}_s": taught[each] - asked[each] for each in PROCESSES}
        figures |= {"predict_kb": (bytes_asked - bytes_before) / 1e3, "teach_kb": (bytes_taught - bytes_asked) / 1e3}
        return figures | {"version_kb": measure_version(service, name) / 1e3}


def draw_inputs(name: str) -> Sequence[tuple[object, str]]:
    """Return COUNT + WARM_UP distinct inputs with their labels; for a chat, questions like those of its repertoire.

    None of them was encoded before: the service keeps the features of texts that it knows.
    """
    if name == "vec":
        return vectors(COUNT + WARM_UP, 1)
    if name == "txt":
        return labelled_sentences(COUNT + WARM_UP, 8, 1)
    replies = [json.loads(line) for line in (ROOT / "data" / "repertoire.jsonl").read_text().splitlines()]
    asked = [(question, reply["id"]) for reply in replies for question in reply["examples"]]
    return [(f"{start}{question}", id) for start in ("Hello! ", "Please: ") for question, id in asked][
        : COUNT + WARM_UP
    ]


class Database:
    """The SQLite database of a running service, read beside it."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)

    def count(self, table: str) -> int:
        return int(self.connection.execute(f"select count(*) from {table}").fetchone()[0])

    def bytes(self) -> int:
        """Return the bytes of the pages that are in use."""
        read = [
            self.connection.execute(f"pragma {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        ]
        return int((read[0] - read[1]) * read[2])


def ask(client: Client, labelled: Sequence[tuple[object, str]]) -> list[str]:
    """Predict for the inputs in requests of SIZE, and return the prediction ids."""
    ids: list[str] = []
    for start in range(0, len(labelled), SIZE):
        ids += client.predict([instance for instance, _ in labelled[start : start + SIZE]])["prediction_ids"]
    return ids


def teach(client: Client, ids: Sequence[str], labels: Sequence[str]) -> None:
    """Give each prediction its label, and wait until all are learned."""
    items = [{"prediction_id": id, "label": label} for id, label in zip(ids, labels, strict=True)]
    receipts = [
        receipt for start in range(0, len(items), SIZE) for receipt in client.feedback(items[start : start + SIZE])
    ]
    client.wait_until_learned(receipts[-1]["offset"], timeout_s=WAIT_S)


def wait_until(is_true: Callable[[], bool]) -> None:
    """Wait for the copier of the journal. Raises BenchmarkError after a minute."""
    deadline = time.monotonic() + WAIT_S
    while not is_true():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"the predictions were not in the store after {WAIT_S:.0f} s")
        time.sleep(0.1)


def measure_version(service: Service, name: str) -> int:
    """Return the bytes of the files of the largest kept version: the newest durable one."""
    versions = (service.log.parent / "state" / "snapshots" / name).iterdir()
    sizes = (sum(file.stat().st_size for file in each.iterdir()) for each in versions if each.name.isdigit())
    return max(sizes, default=0)


# sizes of models


def measure_sizes() -> dict[str, dict[str, float]]:
    """Return, for each sort of model, the fixed kB of its state and those of each further class or reply: served, and stored."""
    sorts: dict[str, tuple[Callable[[int], Model], int, int]] = {
        "classifier slda, texts, by class": (lambda count: learn_classes(count, "slda"), 10, 110),
        "classifier rp_ridge (1,024), texts, by class": (lambda count: learn_classes(count, "rp_ridge"), 10, 110),
        "ranker, by reply with 7 example questions": (learn_replies, 10, 110),
    }
    found = {}
    for name, (build, few, many) in sorts.items():
        small, large = size_of(build(few)), size_of(build(many))
        each = {place: (large[place] - small[place]) / (many - few) for place in small}
        fixed = {f"fixed_{place}_kb": max(0.0, small[place] - few * each[place]) / 1e3 for place in small}
        found[name] = fixed | {f"each_{place}_kb": bytes / 1e3 for place, bytes in each.items()}
    return found


def learn_classes(count: int, head: str) -> Model:
    model = create("classifier", {"input": "text", "head": head})
    model.learn(
        [Example(number + 1, "label", draw_features(number), f"class-{number % count}") for number in range(10 * count)]
    )
    return model


def learn_replies(count: int) -> Model:
    model = create("ranker", {})
    examples: list[Example] = []
    for number in range(count):
        name, text = (
            f"reply-{number}",
            f"This is the text of reply number {number}, which is about as long as a sentence.",
        )
        examples.append(Example(len(examples) + 1, "reply", draw_features(8 * number), name, text))
        for question in range(1, 8):
            examples.append(Example(len(examples) + 1, "label", draw_features(8 * number + question), name))
    model.learn(examples)
    return model


def draw_features(seed: int) -> bytes:
    return np.random.default_rng(seed).integers(-60, 61, WIDTH).astype(np.int8).tobytes()


def size_of(model: Model) -> dict[str, int]:
    """Return the bytes of a model's tensors: those that servers read, and all that a durable version has."""
    sizes = [(part.serving, sum(tensor.nbytes for tensor in part.tensors.values())) for part in model.state().values()]
    return {"served": sum(size for serving, size in sizes if serving), "stored": sum(size for _, size in sizes)}


# report


def show(services: dict[str, dict[str, float]], sizes: dict[str, dict[str, float]]) -> None:
    rows = {
        "memory, MB: server / learner / store": ("server_mb", "learner_mb", "store_mb"),
        "1,000 predictions, processor s: server / store": ("predict_server_s", "predict_store_s"),
        "1,000 feedbacks, processor s: server / learner / store": (
            "teach_server_s",
            "teach_learner_s",
            "teach_store_s",
        ),
        "1,000 predictions, kB in the database": ("predict_kb",),
        "1,000 feedbacks, kB in the database": ("teach_kb",),
        "a durable version, kB": ("version_kb",),
    }
    cells = [
        [title, *(" / ".join(f"{each[key]:,.4g}" for key in keys) for each in services.values())]
        for title, keys in rows.items()
    ]
    table("A service", ["", *services], cells)
    columns = ("fixed_served_kb", "each_served_kb", "fixed_stored_kb", "each_stored_kb")
    table(
        "A version, kB",
        ["", "read by servers: fixed", "each", "on disk: fixed", "each"],
        [[name, *(f"{size[column]:,.1f}" for column in columns)] for name, size in sizes.items()],
    )


def run(args: Namespace) -> int:
    services = {}
    for title, (name, config) in MODELS.items():
        say(f"measuring: {title}")
        services[title] = measure_service(name, config)
    sizes = measure_sizes()
    if args.json:
        print_json({"services": services, "sizes": sizes})
    else:
        show(services, sizes)
    return 0


if __name__ == "__main__":
    command(lambda: run(create_parser(__doc__ or "").parse_args()))
