"""Fills a service for pictures: questions, ratings and corrections of visitors, drawings, a report.

Everything is drawn from a fixed seed, so that the pictures differ only by times of day and ids.
"""

import json
import random
import time
from collections.abc import Iterator
from typing import Any

import httpx
from showcase import ROOT, wait_until_learned

KEY = "a-key-for-pictures"
CONFIG = f"""
admin_key = "{KEY}"
public_teaching = "review"
[[models]]
name = "chat"
kind = "ranker"
[[models]]
name = "digits"
kind = "classifier"
options = {{ input = "vector", size = 64, scale = 16.0 }}
"""
PATIENCE_S = 120
QUESTIONS = 240  # that were asked and rated before the pictures
COMPLAINTS = {  # questions whose answers visitors did not like, with what they wrote
    "Can I bring my dog?": "I only wanted to know about small dogs",
    "Is there parking for bicycles?": "no answer to my question",
    "Do you open on public holidays?": "which holidays?",
}
CORRECTIONS = {
    "Do you lend telescopes?": "Yes! Telescopes are lent for a week, from the Library of Things.",
    "Can I borrow a telescope?": "Yes, for one week. Ask at the Library of Things.",
    "Do you have board games?": "More than two hundred, on the first floor. They are lent for a week.",
}
SHAPES = {  # 8 x 8 squares
    "cross": ("#......#", ".#....#.", "..#..#..", "...##...", "...##...", "..#..#..", ".#....#.", "#......#"),
    "heart": (".##..##.", "#..##..#", "#......#", "#......#", ".#....#.", "..#..#..", "...##...", "........"),
    "house": ("...##...", "..#..#..", ".#....#.", "########", ".#....#.", ".#....#.", ".#....#.", ".######."),
}
DRAWINGS = 6  # of each shape


def seed(url: str) -> None:
    draw = random.Random(17)
    operator = httpx.Client(base_url=url, timeout=PATIENCE_S, headers={"Authorization": f"Bearer {KEY}"})
    wait_until_learned(operator, "chat", "When are you open?")
    rate_questions(operator, draw)
    for question, comment in COMPLAINTS.items():
        give_as_visitor(url, question, reward=0, comment=comment)
    for question, reply in CORRECTIONS.items():
        give_as_visitor(url, question, correction=reply)
    teach_drawings(operator, draw)
    wait_until_learned(operator, "chat", "When are you open?")
    wait_until_learned(operator, "digits", [0] * 64)
    create_report(operator)


def read_examples() -> Iterator[tuple[str, str]]:
    """The example questions of the starter repertoire, each with the id of its reply."""
    for line in (ROOT / "data" / "repertoire.jsonl").read_text().splitlines():
        reply = json.loads(line)
        yield from ((question, reply["id"]) for question in reply["examples"])


def rate_questions(operator: httpx.Client, draw: random.Random) -> None:
    """Ask questions of several users, some in a hurry; a right answer gets a thumb up, and so do a few wrong ones."""
    examples = draw.sample(list(read_examples()), QUESTIONS)
    for start in range(0, QUESTIONS, 20):
        group = examples[start : start + 20]
        asked = {"instances": [shorten(question, draw) for question, _ in group], "user": f"reader-{start // 20}"}
        answer = operator.post("/v1/models/chat:predict", json=asked).raise_for_status().json()
        ratings = [
            {
                "prediction_id": id,
                "reward": int((choice_of(prediction) == right) != (draw.random() < 0.05)),
                "user": asked["user"],
            }
            for id, prediction, (_, right) in zip(answer["prediction_ids"], answer["predictions"], group, strict=True)
            if not prediction["abstained"]
        ]
        operator.post("/v1/models/chat:feedback", json={"feedback": ratings}).raise_for_status()


def shorten(question: str, draw: random.Random) -> str:
    """The question, or as somebody in a hurry types it: without some of its words."""
    words = question.split()
    kept = [word for word in words if draw.random() > 0.45]
    return " ".join(kept) if kept and draw.random() < 0.6 else question


def choice_of(prediction: dict[str, Any]) -> str | None:
    return prediction["reply"] and prediction["reply"]["id"]


def give_as_visitor(url: str, question: str, **feedback: Any) -> None:
    """Ask as a new visitor of the chat page, and say something about the answer."""
    own_page = {"Sec-Fetch-Site": "same-origin"}  # a cookie counts only from the pages of the service
    with httpx.Client(base_url=url, timeout=PATIENCE_S, headers=own_page) as visitor:
        visitor.get("/v1/session").raise_for_status()  # its cookie
        answer = visitor.post("/v1/models/chat:predict", json={"instances": [question]}).raise_for_status().json()
        if "reward" in feedback and answer["predictions"][0]["abstained"]:
            return
        item = {"prediction_id": answer["prediction_ids"][0], **feedback}
        visitor.post("/v1/models/chat:feedback", json={"feedback": [item]}).raise_for_status()


def teach_drawings(operator: httpx.Client, draw: random.Random) -> None:
    for _ in range(DRAWINGS):
        for label, rows in SHAPES.items():
            item = {"input": vary(rows, draw), "label": label, "user": "reader-1"}
            operator.post("/v1/models/digits:feedback", json={"feedback": [item]}).raise_for_status()


def vary(rows: tuple[str, ...], draw: random.Random) -> list[float]:
    """A shape as somebody may have drawn it: some squares have less ink, a few more have some."""
    ink = [float(draw.randint(9, 16)) if square == "#" else 0.0 for row in rows for square in row]
    return [float(draw.randint(1, 5)) if not each and draw.random() < 0.06 else each for each in ink]


def create_report(operator: httpx.Client) -> None:
    """Create the report of the chat, and return once it is there."""
    operator.post("/v1/models/chat/report").raise_for_status()
    end = time.monotonic() + PATIENCE_S
    while operator.get("/v1/models/chat/report").status_code == 202:
        if time.monotonic() > end:
            raise RuntimeError(f"the report was not created within {PATIENCE_S} s")


def create_feedback_url(url: str, question: str) -> str:
    with httpx.Client(base_url=url, timeout=PATIENCE_S, headers={"Authorization": f"Bearer {KEY}"}) as operator:
        body = {"instances": [question], "feedback_urls": True, "user": "reader-1"}
        answer = operator.post("/v1/models/chat:predict", json=body).raise_for_status().json()
        return str(answer["feedback_urls"][0])
