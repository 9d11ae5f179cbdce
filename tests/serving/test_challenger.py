"""A challenger in a running service: promoted by what people correct, to be seen in every version, exact over a kill."""

import re

from tests.conftest import Start
from tests.support import Service, run_online, until

CHAT = """
[[models]]
name = "chat"
kind = "ranker"

[models.options]
abstain_margin = 1e6   # says only what it was told word for word
abstain_below = 2.0

[models.options.challenger]
patience = 5
"""
QUESTIONS = [
    "When do you open?",
    "At what time do you open?",
    "Tell me your opening hours.",
    "From when on are you open?",
]


def corrected(service: Service) -> int:
    """Four questions about one thing, each answered, and corrected to the same reply. Gives the last offset."""
    with service.client("chat") as client:
        receipts = []
        for question in [*QUESTIONS, *(f"{question} Please." for question in QUESTIONS)]:
            asked = client.predict([question])["prediction_ids"][0]
            receipts.append(client.teach(asked, "We open at nine."))
            client.predict([question], min_offset=receipts[-1]["offset"], timeout_ms=30_000)
    return int(receipts[-1]["offset"])


def test_a_challenger_that_was_nearer_answers_from_then_on(start: Start) -> None:
    service = start(CHAT)
    service.wait_learned("chat", 15)
    before = service.http.get("/v1/models/chat/versions").json()["versions"][0]["metrics"]
    assert before["challenger_served"] == 0.0
    offset = corrected(service)
    service.wait_learned("chat", offset)
    promoted = until(lambda: [v for v in service.versions("chat") if v["metrics"]["challenger_served"]], what="it")
    assert promoted[0]["metrics"]["challenger_percent"] > promoted[0]["metrics"]["champion_percent"]
    with service.client("chat") as client:
        answer = client.predict(["What are your opening hours, please?"])
        reply = answer["predictions"][0]["reply"]
    assert reply is not None and reply["text"] == "We open at nine."
    why = service.http.get(f"/v1/models/chat/predictions/{answer['prediction_ids'][0]}/why").raise_for_status().json()
    assert why["grounds"][0]["text"] == "We open at nine."
    until(lambda: re.search(r"served .*who=challenger", service.output), what="the line that tells it")
    flags = ("--state", str(service.state), "--config", str(service.state.with_suffix(".toml")))
    told = run_online("versions", *flags)
    assert re.search(r"challenger \d+\.\d % \(served\)", told.stdout), told.stdout
    kept = service.versions("chat")[0]
    service.kill_learner()
    with service.client("chat") as client:
        asked = client.predict(["When may I come?"])["prediction_ids"][0]
        learned = client.teach(asked, "We open at nine.")["offset"]
    service.wait_learned("chat", learned)
    after = service.versions("chat")[0]["metrics"]
    assert after["challenger_served"] == 1.0 and after["contested"] == kept["metrics"]["contested"] + 1
