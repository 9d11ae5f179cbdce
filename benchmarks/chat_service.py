"""Measures how a service learns from chat: the simulated users of benchmarks.chat, over HTTP.

    question --> POST :predict --> reply --> POST :feedback (👍 / 👎, chips, the right reply) --> next turn
                                                 |  learned concurrently
                                                 +--> published --> served

All requests go through online.Client. The live version encodes and answers the texts, and no turn
waits until the last thumb is learned. Each figure is printed beside that of benchmarks.chat, which
plays the same turns of the same seed in one process. The service never abstains here.
"""

import json
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.chat import (
    CURVE,
    LAST,
    LIKED,
    NEVER_ABSTAIN,
    USERS,
    Accuracies,
    Dataset,
    SimulatedUser,
    chitchat,
    chitchat_rows,
    matches,
    percent,
    play,
    play_personality,
    split_questions,
)
from benchmarks.clinc150 import data_file
from benchmarks.report import command, create_parser, print_json, progress, say, table
from benchmarks.service import running_service
from online.client import Client, Prediction

USER_NAMES = ("thumbs only", "10 % of thumbs are wrong", "three chips after a 👎", "👎, then the right reply")
AT_ONCE = 64
PATIENCE_S = 120.0


@contextmanager
def chat(replies: Sequence[dict[str, str]], options: dict[str, Any]) -> Iterator[Client]:
    """Return a client of a service that has learned only these replies."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replies.jsonl"
        path.write_text("\n".join(map(json.dumps, replies)))
        assignments = ", ".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
        config = f'repertoire = {json.dumps(str(path))}\n[[models]]\nname = "chat"\nkind = "ranker"\n'
        with (
            running_service(f"{config}options = {{ {assignments} }}\n") as service,
            Client(f"http://{service.host}:{service.port}", "chat", timeout_s=30.0) as client,
        ):
            client.wait_until_learned(client.status()["head"], PATIENCE_S)
            yield client


def choice_of(prediction: Prediction) -> str:
    reply = prediction["reply"]
    assert reply is not None  # it never abstains
    return reply["id"]


def choices(client: Client, texts: Sequence[str]) -> list[str]:
    """Return unrecorded answers to the test questions, once all feedback so far is learned."""
    client.wait_until_learned(client.status()["head"], PATIENCE_S)
    parts = (list(texts[start : start + AT_ONCE]) for start in range(0, len(texts), AT_ONCE))
    return [choice_of(each) for part in parts for each in client.predict(part, record=False)["predictions"]]


def converse(dataset: Dataset, user: SimulatedUser, seed: int, turns: int) -> Accuracies:
    """Play the turns of benchmarks.chat over HTTP."""
    texts, test = ([text for text, _ in json.loads(data_file().read_bytes())[name]] for name in ("train", "test"))
    draw, hits, accuracies = np.random.default_rng(seed), list[bool](), Accuracies({}, {})
    order = draw.permutation(len(texts))[:turns].tolist()
    with chat([{"id": name, "text": name.replace("_", " ")} for name in dataset.names], NEVER_ABSTAIN) as client:
        for turn, place in enumerate(progress(order, f"{user.name}, seed {seed}"), 1):
            right = dataset.train.labels[place]
            hits.append(play_turn(client, user, texts[place], right, draw))
            if turn in CURVE:
                accuracies.last[turn] = percent(hits[-LAST:])
                accuracies.test[turn] = percent(matches(choices(client, test), dataset.test.labels))
    return accuracies


def play_turn(client: Client, user: SimulatedUser, text: str, right: str, draw: np.random.Generator) -> bool:
    response = client.predict([text])
    prediction, id = response["predictions"][0], response["prediction_ids"][0]
    choice = choice_of(prediction)
    up, corrects = user.verdict(choice, [each["id"] for each in prediction["candidates"]], right, draw)
    feedback = [{"prediction_id": id, "reward": float(up)}] if up is not None else []
    if corrects:
        feedback.append({"prediction_id": id, "label": right})
    if feedback:
        client.feedback(feedback)
    return choice == right


def play_personality_over_http(seed: int) -> dict[str, float]:
    """Play benchmarks.chat's user who likes one personality, over HTTP."""
    scenarios, _, replies = chitchat()
    texts = [query for row in chitchat_rows() for query in row["queries"]]
    draw = np.random.default_rng(seed)
    with chat([{"id": id, "text": text} for id, (text, _) in replies.items()], NEVER_ABSTAIN) as client:
        rated, _, held_out = split_questions(scenarios, draw, 0)
        for place in progress(draw.permutation(rated).tolist(), f"likes {LIKED}, seed {seed}"):
            response = client.predict([texts[place]])
            liked = choice_of(response["predictions"][0]).endswith(f"-{LIKED}")
            client.reward(response["prediction_ids"][0], float(liked))
        chosen = choices(client, [texts[place] for place in held_out])
    return {"": percent([choice.endswith(f"-{LIKED}") for choice in chosen])}


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--turns", type=int, default=CURVE[-1])
    parser.add_argument("--only", nargs="*", default=list(USER_NAMES), help="names of simulated users")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    dataset = Dataset.clinc()
    for user in (each for each in USERS if each.name in flags.only):
        say(f"{user.name} ...")
        results[user.name] = {
            "service": [converse(dataset, user, seed, flags.turns) for seed in range(flags.seeds)],
            "process": [play(dataset, user, seed, flags.turns) for seed in range(flags.seeds)],
        }
    liked = [(play_personality_over_http(seed), play_personality(seed, 0, False)) for seed in range(flags.seeds)]
    personality = {
        way: float(np.mean([run[place][""] for run in liked])) for place, way in enumerate(("service", "process"))
    }
    report(results, personality, flags)
    return 0


def report(results: dict[str, dict[str, list[Accuracies]]], personality: dict[str, float], flags: Namespace) -> None:
    marks = [mark for mark in CURVE if mark <= flags.turns]
    means = {
        (name, way, metric): [float(np.mean([getattr(run, metric)[mark] for run in runs])) for mark in marks]
        for name, ways in results.items()
        for way, runs in ways.items()
        for metric in ("last", "test")
    }
    if flags.json:
        figures = [
            {"user": name, "way": way, "metric": metric, "right": values}
            for (name, way, metric), values in means.items()
        ]
        print_json({"benchmark": "chat_service", "turns": marks, "figures": figures, "liked_personality": personality})
        return
    rows = [
        (f"{name}: {metric}, {way}", *(f"{each:.1f}" for each in values))
        for (name, way, metric), values in means.items()
    ]
    title = f"right, % of the last {LAST} turns and of the test, through the service and in one process"
    table(title, ("", *(f"{mark:,}" for mark in marks)), rows)
    table("a user who likes one personality: % liked of held-out questions", ("", "%"), [*personality.items()])


if __name__ == "__main__":
    command(main)
