"""A challenger in a running service: promoted by corrections, reported in every version, and unchanged by a kill."""

import re

from tests.conftest import Start
from tests.support import Service, run_online, until

CHAT = """
[[models]]
name = "chat"
kind = "ranker"

[models.options]
abstain_margin = 1e6   # the champion answers only questions that it has learned word for word
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


def give_corrections(service: Service) -> int:
    """Ask similar questions and correct each answer to the same reply; return the last offset."""
    with service.client("chat") as client:
        receipts = []
        for question in [*QUESTIONS, *(f"{question} Please." for question in QUESTIONS)]:
            prediction_id = client.predict([question])["prediction_ids"][0]
            receipts.append(client.teach(prediction_id, "We open at nine."))
            client.predict([question], min_offset=receipts[-1]["offset"], timeout_ms=30_000)
    return int(receipts[-1]["offset"])


def test_a_better_challenger_is_promoted_and_survives_a_kill_of_the_learner(start: Start) -> None:
    service = start(CHAT)
    service.wait_learned("chat", 15)
    before = service.http.get("/v1/models/chat/versions").json()["versions"][0]["metrics"]
    assert before["challenger_served"] == 0.0
    offset = give_corrections(service)
    service.wait_learned("chat", offset)
    promoted = until(
        lambda: [v for v in service.versions("chat") if v["metrics"]["challenger_served"]], what="the promotion"
    )
    assert promoted[0]["metrics"]["challenger_percent"] > promoted[0]["metrics"]["champion_percent"]
    with service.client("chat") as client:
        answer = client.predict(["What are your opening hours, please?"])
        reply = answer["predictions"][0]["reply"]
    assert reply is not None and reply["text"] == "We open at nine."
    why = service.http.get(f"/v1/models/chat/predictions/{answer['prediction_ids'][0]}/why").raise_for_status().json()
    assert why["grounds"][0]["text"] == "We open at nine."
    until(lambda: re.search(r"answering model changed .*who=challenger", service.output), what="the log line")
    flags = ("--state", str(service.state), "--config", str(service.state.with_suffix(".toml")))
    process = run_online("versions", *flags)
    assert re.search(r"challenger \d+\.\d % \(served\)", process.stdout), process.stdout
    before_kill = service.versions("chat")[0]
    service.kill_learner()
    with service.client("chat") as client:
        prediction_id = client.predict(["When may I come?"])["prediction_ids"][0]
        learned = client.teach(prediction_id, "We open at nine.")["offset"]
    service.wait_learned("chat", learned)
    after = service.versions("chat")[0]["metrics"]
    assert after["challenger_served"] == 1.0 and after["contested"] == before_kill["metrics"]["contested"] + 1
