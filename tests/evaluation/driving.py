"""People at a service, who do everything people do."""

import random
from typing import Any

from online.client import Client, Predicted
from tests.conftest import REPERTOIRE

MODELS = """
[[models]]
name = "chat"
kind = "ranker"
options = { policy = "epsilon", epsilon = 0.3 }

[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 4, scale = 4.0 }

[[models]]
name = "rv"
kind = "river"
"""
TURNS, LATE, RETRACTED, ANOTHER, USERS = 120, 0.1, 0.03, 0.2, 12
QUESTIONS = [(question, str(reply["id"])) for reply in REPERTOIRE for question in reply["examples"]]


class Drive:
    """People at one model: thumbs, labels and corrections, some late, some taken back, two users erased in the end."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client, self.draw = client, random.Random(seed)
        self.late: list[tuple[int, dict[str, Any]]] = []
        self.head = 0

    def run(self) -> None:
        self.head = self.client.status()["head"]
        self.client.predict([self.instance()[0]], min_offset=self.head, timeout_ms=20_000, record=False)
        for turn in range(TURNS):
            self.late = [due for due in self.late if not self.tell_if_due(turn, *due)]
            self.turn(turn)
        for _, feedback in self.late:
            self.tell(feedback)
        for user in ("user 1", "user 2"):
            erased = self.client.erase(user)
            assert erased["feedback"] > 0 and erased["predictions"] > 0
            self.head = max(self.head, erased["offset"])

    def turn(self, turn: int) -> None:
        instance, right = self.instance()
        user = f"user {self.draw.randrange(USERS)}"
        self.client.user = user
        known = self.head if self.draw.random() < 0.5 else 0  # half of them will not wait for what was told last
        asked = self.client.predict([instance], min_offset=known, timeout_ms=20_000)
        if (unwanted := replied(asked)) and self.draw.random() < ANOTHER:
            asked = self.client.predict([instance], min_offset=known, timeout_ms=20_000, besides=[unwanted])
        feedback = {"prediction_id": asked["prediction_ids"][0], "user": user, **self.opinion(asked, right)}
        if self.draw.random() < 0.1:
            return  # nobody says anything
        if self.draw.random() < LATE:
            self.late.append((turn + self.draw.randrange(2, 30), feedback))
        else:
            self.tell(feedback)

    def tell_if_due(self, turn: int, due: int, feedback: dict[str, Any]) -> bool:
        if turn >= due:
            self.tell(feedback)
        return turn >= due

    def tell(self, feedback: dict[str, Any]) -> None:
        receipt = self.client.feedback([feedback])[0]
        self.head = receipt["offset"]
        if self.draw.random() < RETRACTED:
            self.head = self.client.retract(receipt["id"])["offset"]

    def instance(self) -> tuple[Any, str]:
        match self.client.model:
            case "chat":
                return self.draw.choice(QUESTIONS)
            case "vec":
                right = self.draw.randrange(4)
                return [float(place == right) + self.draw.gauss(0, 0.4) for place in range(4)], str(right)
            case _:
                size = self.draw.randrange(10)
                return {"size": size, "noise": self.draw.random()}, "big" if size > 4 else "small"

    def opinion(self, asked: Predicted, right: str) -> dict[str, Any]:
        shown = asked["predictions"][0]
        given = replied(asked) if "reply" in shown else shown["label"]
        if given is None or self.draw.random() < 0.3:
            if self.client.model == "chat" and self.draw.random() < 0.3:
                return {"correction": f"A new reply about {right}, number {self.draw.randrange(9)}."}
            return {"label": right}
        return {"reward": float(given == right)}


def replied(asked: Predicted) -> str | None:
    """The id of the reply that was given, if one was."""
    reply = asked["predictions"][0].get("reply")
    return None if reply is None else str(reply["id"])
