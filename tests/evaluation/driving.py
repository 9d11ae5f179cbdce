"""Simulated users of a service, who send every kind of request."""

import random
from typing import Any

from online.client import Client, PredictResponse
from tests.conftest import REPERTOIRE
from tests.support import erase

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
    """Users of one model: thumbs, labels and corrections, some late, some retracted; two users can be erased at the end."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client, self.rng = client, random.Random(seed)
        self.late: list[tuple[int, dict[str, Any]]] = []
        self.head = 0

    def run(self) -> None:
        self.head = self.client.status()["head"]
        self.client.predict([self.instance()[0]], min_offset=self.head, timeout_ms=20_000, record=False)
        for turn in range(TURNS):
            self.late = [due for due in self.late if not self.send_if_due(turn, *due)]
            self.turn(turn)
        for _, feedback in self.late:
            self.send(feedback)

    def erase(self) -> None:
        """Erase two of the users, and wait until nothing is left of them."""
        for user in ("user 1", "user 2"):
            erased = erase(self.client, user)
            assert erased["feedback"] > 0 and erased["predictions"] > 0
        self.head = self.client.status()["head"]

    def turn(self, turn: int) -> None:
        instance, expected = self.instance()
        user = f"user {self.rng.randrange(USERS)}"
        self.client.user = user
        known = (
            self.head if self.rng.random() < 0.5 else 0
        )  # half of them do not wait until the last feedback is learned
        response = self.client.predict([instance], min_offset=known, timeout_ms=20_000)
        if (unwanted := get_reply_id(response)) and self.rng.random() < ANOTHER:
            response = self.client.predict([instance], min_offset=known, timeout_ms=20_000, exclude=[unwanted])
        feedback = {"prediction_id": response["prediction_ids"][0], "user": user, **self.opinion(response, expected)}
        if self.rng.random() < 0.1:
            return  # no feedback
        if self.rng.random() < LATE:
            self.late.append((turn + self.rng.randrange(2, 30), feedback))
        else:
            self.send(feedback)

    def send_if_due(self, turn: int, due: int, feedback: dict[str, Any]) -> bool:
        if turn >= due:
            self.send(feedback)
        return turn >= due

    def send(self, feedback: dict[str, Any]) -> None:
        receipt = self.client.feedback([feedback])[0]
        self.head = receipt["offset"]
        if self.rng.random() < RETRACTED:
            self.head = self.client.retract(receipt["id"])["offset"]

    def instance(self) -> tuple[Any, str]:
        match self.client.model:
            case "chat":
                return self.rng.choice(QUESTIONS)
            case "vec":
                expected = self.rng.randrange(4)
                return [float(place == expected) + self.rng.gauss(0, 0.4) for place in range(4)], str(expected)
            case _:
                size = self.rng.randrange(10)
                return {"size": size, "noise": self.rng.random()}, "big" if size > 4 else "small"

    def opinion(self, response: PredictResponse, expected: str) -> dict[str, Any]:
        prediction = response["predictions"][0]
        answer = get_reply_id(response) if "reply" in prediction else prediction["label"]
        if answer is None or self.rng.random() < 0.3:
            if self.client.model == "chat" and self.rng.random() < 0.3:
                return {"correction": f"A new reply about {expected}, number {self.rng.randrange(9)}."}
            return {"label": expected}
        return {"reward": float(answer == expected)}


def get_reply_id(response: PredictResponse) -> str | None:
    """Return the id of the given reply, or None."""
    reply = response["predictions"][0].get("reply")
    return None if reply is None else str(reply["id"])
