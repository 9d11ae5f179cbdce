"""The scope of a correction, from a request to the log, the conversation and back."""

import json
from pathlib import Path

import pytest

from online.client import Client
from online.errors import BadInput
from online.evaluation.sources.log_export import render_event
from online.evaluation.sources.log_format import LoggedEvent
from online.evaluation.sources.log_lines import LineParser
from online.schemas.events import Event, chain_digest
from online.store.log_rows import LogRow
from tests.conftest import Start
from tests.support import Service, run_online

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'


def test_a_scope_without_a_correction_is_refused(service: Service) -> None:
    answer = service.http.post(
        "/v1/models/chat:feedback", json={"feedback": [{"input": "x", "label": "hours", "scope": "reply"}]}
    )
    assert answer.status_code == 400
    assert "only a correction has a scope" in answer.json()["error"]


def test_an_unknown_scope_is_refused(service: Service) -> None:
    item = {"input": "x", "correction": "y", "scope": "everywhere"}
    answer = service.http.post("/v1/models/chat:feedback", json={"feedback": [item]})
    assert answer.status_code == 400 and "scope" in answer.json()["error"]


def test_corrections_with_scopes_are_learned_retracted_exported_and_replayed(start: Start, tmp_path: Path) -> None:
    service = start(CHAT)
    service.wait_learned("chat", 1)
    with service.client("chat", user="ada") as client:
        state = client.status()["weights_sha256"]
        asked = client.predict(["When do you open?"], conversation="talk")
        id = asked["prediction_ids"][0]
        receipt = client.teach(id, "We open at ten.", scope="reply")
        client.wait_until_learned(receipt["offset"], 60)
        assert reply_to(client, "At what time are you open?") == "We open at ten."
        turns = service.http.get("/v1/models/chat/conversations/talk", headers={"X-User": "ada"}).json()["said"]
        assert turns[0]["feedback"][0]["scope"] == "reply"
        back = client.retract(receipt["id"])
        client.wait_until_learned(back["offset"], 60)
        assert reply_to(client, "At what time are you open?") == "We open at nine."
        other = client.predict(["Can I print here?"])["prediction_ids"][0]
        local = client.teach(other, "Printing is free today.", scope="question")
        client.wait_until_learned(local["offset"], 60)
        assert reply_to(client, "can I print here") == "Printing is free today."
        assert reply_to(client, "Where is the printer?") == "The printer is by the stairs."
        assert client.status()["weights_sha256"] != state
    log = tmp_path / "log.jsonl"
    exported = run_online("log", "export", "--state", str(service.state), "--model", "chat", "--output", str(log))
    assert exported.returncode == 0, exported.stderr
    assert [json.loads(line)["event"].get("scope") for line in log.read_text().splitlines() if '"scope"' in line]
    replayed = run_online("replay", str(log), "--model", "ranker", "--json")
    assert replayed.returncode == 0, replayed.stderr
    manifests = [json.loads(path.read_text()) for path in service.state.glob("**/manifest.json")]
    newest = max(manifests, key=lambda manifest: manifest["version"])
    assert newest["learned_until"] == local["offset"]
    assert json.loads(replayed.stdout)["results"][0]["state_sha256"] == newest["state_sha256"]


def reply_to(client: Client, question: str) -> str | None:
    reply = client.predict([question], record=False)["predictions"][0]["reply"]
    return None if reply is None else reply["text"]


def test_an_event_without_a_scope_has_the_body_and_the_digest_that_it_had_before() -> None:
    plain, scoped = (
        Event("f", "correction", b"", "a", choice="b"),
        Event("f", "correction", b"", "a", choice="b", scope="reply"),
    )
    assert "scope" not in json.loads(plain.body())
    assert Event.parse(scoped.body(), b"") == scoped
    assert chain_digest("", 1, plain) != chain_digest("", 1, scoped)
    assert (plain.superseded, scoped.superseded) == ("", "b")


def test_a_line_of_a_log_keeps_the_scope_and_refuses_an_unknown_one() -> None:
    event = Event("f", "correction", b"q", "a", choice="b", scope="question")
    line = render_event(
        LogRow(3, event.body(), b"q", None, None, None, None, None, None, None, None, is_about_kept=False), {}
    )
    read = LineParser("log").parse(line, 1)
    assert isinstance(read, LoggedEvent) and read.complete() == event
    line["event"]["scope"] = "town"
    with pytest.raises(BadInput, match="it may be reply or question"):
        LineParser("log").parse(line, 1)
