"""Requests that change what is served or learned are in the audit log, without words of users."""

import json
from typing import Any

import httpx
import pytest

from tests.conftest import Start
from tests.support import Service, run_online

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n[[models]]\nname = "txt"\nkind = "classifier"\n'


def read_entries(service: Service) -> list[dict[str, Any]]:
    printed = run_online("audit", "list", "--json", "--state", str(service.state)).stdout
    entries: list[dict[str, Any]] = json.loads(printed)["entries"]
    return entries


@pytest.fixture
def chat(start: Start) -> Service:
    service = start(CHAT)
    service.wait_learned("chat", 1)
    return service


def test_what_changes_a_model_is_recorded_with_who_did_it(chat: Service) -> None:
    at = "/v1/models/chat"
    done: list[httpx.Response] = []
    ask = {"instances": ["Where is zanzibar?"], "user": "zoe", "feedback_urls": True}
    answer = chat.http.post(f"{at}:predict", json=ask).json()
    correction = {"prediction_id": answer["prediction_ids"][0], "correction": "zanzibar is in aisle 4", "user": "zoe"}
    receipt = chat.http.post(f"{at}:feedback", json={"feedback": [{**correction, "id": "zoe-1"}]}).json()["receipts"][0]
    done.append(chat.http.post(f"{at}/replies", json={"text": "zanzibar too", "id": "zanzibar"}))
    done.append(chat.http.put(f"{at}/replies/zanzibar", json={"examples": ["zanzibar?"]}))
    done.append(chat.http.delete(f"{at}/replies/zanzibar"))
    done.append(chat.http.post(f"{at}/replies:import", content='{"text": "zanzibar three"}\n'))
    done.append(chat.http.delete(answer["feedback_urls"][0]))
    done.append(chat.http.delete(f"{at}/feedback/zoe-1"))
    done.append(chat.http.delete(f"{at}/users/zoe"))
    done.append(chat.http.post("/v1/models/txt:feedback", json={"feedback": [{"input": "x", "label": "zanzibar"}]}))
    done.append(chat.http.delete("/v1/models/txt/classes/zanzibar"))
    done.append(chat.http.post(f"{at}:freeze", json={"reason": "zanzibar"}))
    done.append(chat.http.post(f"{at}:thaw"))
    done.append(chat.http.put(f"{at}/version_labels/stable", json={"version": "latest"}))
    assert [response.status_code for response in done] == [202, 202, 202, 200, 404, 202, 202, 202, 202, 200, 204, 200]
    entries = read_entries(chat)
    assert [entry["action"] for entry in entries] == [
        *("teach", "add_reply", "edit_reply", "retire_reply", "import_replies", "retract", "erase"),
        *("retire_class", "freeze", "thaw", "label_version"),
    ]
    assert {(entry["actor"], entry["address"]) for entry in entries} == {("local", "127.0.0.1")}
    assert entries[0]["target"] == f"offset {receipt['offset']}" and entries[0]["details"] == {"corrections": 1}
    assert not {"zanzibar", "zoe"} & set(json.dumps(entries).replace('"', " ").split())
    assert "zanzibar" not in json.dumps(entries) and "zoe" not in json.dumps(entries)


def test_who_holds_a_feedback_url_is_recorded_as_that_and_ratings_are_too_many_for_the_log(chat: Service) -> None:
    ask = {"instances": ["When do you open?"], "feedback_urls": True}
    answer = chat.http.post("/v1/models/chat:predict", json=ask).json()
    rated = chat.http.post("/v1/models/chat:predict", json={"instances": ["Is there wifi?"]}).json()
    rating = {"prediction_id": rated["prediction_ids"][0], "reward": 1}
    assert chat.http.post("/v1/models/chat:feedback", json={"feedback": [rating]}).status_code == 202
    httpx.post(answer["feedback_urls"][0], json={"correction": "We do."})
    httpx.delete(answer["feedback_urls"][0])
    assert [(entry["actor"].partition(":")[0], entry["action"]) for entry in read_entries(chat)] == [
        ("link", "teach"),
        ("link", "retract"),
    ]


def test_commands_are_recorded_and_the_log_is_verified_beside_a_service(chat: Service) -> None:
    flags = ("--state", str(chat.state), "--model", "chat")
    assert run_online("freeze", "--reason", "review", *flags).returncode == 0
    assert run_online("thaw", *flags).returncode == 0
    assert [(entry["actor"].partition(":")[0], entry["action"]) for entry in read_entries(chat)] == [
        ("local", "freeze"),
        ("local", "thaw"),
    ]
    verified = run_online("audit", "verify", "--state", str(chat.state))
    assert verified.returncode == 0 and verified.stdout.startswith("2 entries, none was changed; head: 2 ")
    (chat.state / "audit.head").write_text('{"id": 3, "digest": "00"}')
    broken = run_online("audit", "verify", "--state", str(chat.state))
    assert broken.returncode == 2 and "broken at entry 3: the entries up to 3 are missing" in broken.stderr
