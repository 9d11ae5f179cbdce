"""Does the chat page's own API learn as the ranker behind it does? The persons of benchmarks.chat, at a real service.

    a person asks --> POST :predict --> the reply --> POST :feedback (👍 / 👎, chips, the right reply) --> the next turn
                                                        |  learned beside it, as soon as the learner comes to it
                                                        +--> published --> served

Everything goes through online.Client: nothing of the service is reached into. Texts are sent, encoded and answered by
whatever version is live; nobody waits for a thumb to be learned before the next question. Beside each figure stands
what benchmarks.chat reaches in one process with the same turns of the same seed. The service never abstains here.
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
    PEOPLE,
    Person,
    Played,
    World,
    agreed,
    bar,
    chitchat,
    chitchat_rows,
    liking,
    percent,
    play,
    split_questions,
)
from benchmarks.clinc150 import data_file
from benchmarks.report import command, parser, print_json, say, table
from benchmarks.service import running
from online.client import Client, Prediction

PERSONS = ("thumbs only", "10 % of thumbs lie", "three chips after a 👎", "👎, then the right reply")
AT_ONCE = 64
PATIENCE_S = 120.0


@contextmanager
def chat(replies: Sequence[dict[str, str]], options: dict[str, Any]) -> Iterator[Client]:
    """A client of a service that has learned these replies and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replies.jsonl"
        path.write_text("\n".join(map(json.dumps, replies)))
        told = ", ".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
        config = f'repertoire = {json.dumps(str(path))}\n[[models]]\nname = "chat"\nkind = "ranker"\n'
        with (
            running(f"{config}options = {{ {told} }}\n") as service,
            Client(f"http://{service.host}:{service.port}", "chat", timeout_s=30.0) as client,
        ):
            client.wait_until_learned(client.status()["head"], PATIENCE_S)
            yield client


def choice_of(prediction: Prediction) -> str:
    reply = prediction["reply"]
    assert reply is not None  # it never abstains
    return reply["id"]


def choices(client: Client, texts: Sequence[str]) -> list[str]:
    """Asked dry, once everything said so far is learned: nothing of the test leaves a trace."""
    client.wait_until_learned(client.status()["head"], PATIENCE_S)
    parts = (list(texts[start : start + AT_ONCE]) for start in range(0, len(texts), AT_ONCE))
    return [choice_of(each) for part in parts for each in client.predict(part, record=False)["predictions"]]


def converse(world: World, person: Person, seed: int, turns: int) -> Played:
    """benchmarks.chat's play, word for word, by way of HTTP."""
    texts, test = ([text for text, _ in json.loads(data_file().read_bytes())[name]] for name in ("train", "test"))
    draw, hits, played = np.random.default_rng(seed), list[bool](), Played({}, {})
    order = draw.permutation(len(texts))[:turns].tolist()
    with chat([{"id": name, "text": name.replace("_", " ")} for name in world.names], NEVER_ABSTAIN) as client:
        for turn, place in enumerate(bar(order, f"{person.name}, seed {seed}"), 1):
            right = world.train.labels[place]
            hits.append(say_a_turn(client, person, texts[place], right, draw))
            if turn in CURVE:
                played.last[turn] = percent(hits[-LAST:])
                played.test[turn] = percent(agreed(choices(client, test), world.test.labels))
    return played


def say_a_turn(client: Client, person: Person, text: str, right: str, draw: np.random.Generator) -> bool:
    asked = client.predict([text])
    prediction, id = asked["predictions"][0], asked["prediction_ids"][0]
    choice = choice_of(prediction)
    up, corrects = person.verdict(choice, [each["id"] for each in prediction["candidates"]], right, draw)
    said = [{"prediction_id": id, "reward": float(up)}] if up is not None else []
    if corrects:
        said.append({"prediction_id": id, "label": right})
    if said:
        client.feedback(said)
    return choice == right


def liking_asked(seed: int) -> dict[str, float]:
    """benchmarks.chat's person who likes one personality, whatever was asked, by way of HTTP."""
    scenarios, _, replies = chitchat()
    texts = [query for row in chitchat_rows() for query in row["queries"]]
    draw = np.random.default_rng(seed)
    with chat([{"id": id, "text": text} for id, (text, _) in replies.items()], NEVER_ABSTAIN) as client:
        asked, _, held = split_questions(scenarios, draw, 0)
        for place in bar(draw.permutation(asked).tolist(), f"likes {LIKED}, seed {seed}"):
            told = client.predict([texts[place]])
            liked = choice_of(told["predictions"][0]).endswith(f"-{LIKED}")
            client.reward(told["prediction_ids"][0], float(liked))
        given = choices(client, [texts[place] for place in held])
    return {"": percent([choice.endswith(f"-{LIKED}") for choice in given])}


def flags_given() -> Namespace:
    flags = parser(__doc__ or "")
    flags.add_argument("--seeds", type=int, default=1)
    flags.add_argument("--turns", type=int, default=CURVE[-1])
    flags.add_argument("--only", nargs="*", default=list(PERSONS), help="which persons; 'likes' for the personality")
    return flags.parse_args()


def main() -> int:
    flags = flags_given()
    torch.set_num_threads(1)
    told: dict[str, Any] = {}
    world = World.clinc()
    for person in (each for each in PEOPLE if each.name in flags.only):
        say(f"{person.name} ...")
        told[person.name] = {
            "service": [converse(world, person, seed, flags.turns) for seed in range(flags.seeds)],
            "process": [play(world, person, seed, flags.turns) for seed in range(flags.seeds)],
        }
    liked = [(liking_asked(seed), liking(seed, 0, False)) for seed in range(flags.seeds)]
    personality = {
        way: float(np.mean([run[place][""] for run in liked])) for place, way in enumerate(("service", "process"))
    }
    report(told, personality, flags)
    return 0


def report(told: dict[str, dict[str, list[Played]]], personality: dict[str, float], flags: Namespace) -> None:
    marks = [mark for mark in CURVE if mark <= flags.turns]
    means = {
        (name, way, which): [float(np.mean([getattr(run, which)[mark] for run in runs])) for mark in marks]
        for name, ways in told.items()
        for way, runs in ways.items()
        for which in ("last", "test")
    }
    if flags.json:
        figures = [{"person": n, "by": w, "of": of, "right": values} for (n, w, of), values in means.items()]
        print_json({"benchmark": "chat_service", "turns": marks, "figures": figures, "liked personality": personality})
        return
    rows = [
        (f"{name}: {which}, {way}", *(f"{each:.1f}" for each in values)) for (name, way, which), values in means.items()
    ]
    title = f"right, % of the last {LAST} turns and of the test, by way of the service and in one process"
    table(title, ("", *(f"{mark:,}" for mark in marks)), rows)
    table(
        "a person who likes one personality, whatever was asked: % liked, held out", ("", "%"), [*personality.items()]
    )


if __name__ == "__main__":
    command(main)
