"""The repertoire of a real service as a file: import and export."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.rest.test_predict import predict
from tests.conftest import REPERTOIRE, config
from tests.support import Service

REPLIES = "/v1/models/chat/replies"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("repertoire")
    running = Service(folder / "state", config(folder, '[[models]]\nname = "chat"\nkind = "ranker"\n'))
    running.wait_learned("chat", 1)
    yield running
    running.stop()


def reply_to(service: Service, question: str) -> dict[str, Any] | None:
    reply: dict[str, Any] | None = predict(service, "chat", [question])["predictions"][0]["reply"]
    return reply


def import_replies(service: Service, data: str, **params: Any) -> dict[str, Any]:
    response = service.http.post(f"{REPLIES}:import", content=data.encode(), params=params)
    assert response.status_code == 200, response.text
    report: dict[str, Any] = response.json()
    return report


def test_a_dry_run_reports_each_line_and_changes_nothing(chat: Service) -> None:
    head = chat.http.get("/v1/models/chat").json()["head"]
    lines = [{"id": "wifi", "text": "The network is called Library."}, {"text": ""}, {"text": "Pens are at the desk."}]
    report = import_replies(chat, "\n".join(map(json.dumps, lines)), dry_run=True)
    assert [(line["line"], line["does"], line["error"]) for line in report["lines"]] == [
        (1, ["reworded"], None),
        (2, [], "a reply needs a text"),
        (3, ["new"], None),
    ]
    assert (
        report["lines"][0]["was"] == "The network is called Guest." and report["bad"] == 1 and report["offset"] is None
    )
    assert chat.http.get("/v1/models/chat").json()["head"] == head


def test_a_file_with_an_invalid_line_is_refused_unless_invalid_lines_are_skipped(chat: Service) -> None:
    data = '{"text": "Scissors are at the desk.", "examples": ["Where are scissors?"]}\n{"text": ""}\n'
    refused = chat.http.post(f"{REPLIES}:import", content=data)
    assert refused.status_code == 400 and "the first is line 2" in refused.json()["error"]
    assert reply_to(chat, "Where are scissors?") is None
    report = import_replies(chat, data, skip_bad=True)
    chat.wait_learned("chat", report["offset"])
    assert (reply_to(chat, "Where are scissors?") or {})["text"] == "Scissors are at the desk."


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_importing_an_exported_file_changes_nothing(chat: Service, format: str) -> None:
    head = chat.http.get("/v1/models/chat").json()["head"]
    exported = chat.http.get(f"{REPLIES}:export", params={"format": format})
    assert f'filename="chat-replies.{format}"' in exported.headers["content-disposition"]
    for reply in REPERTOIRE:
        assert str(reply["examples"][0]) in exported.text
    report = import_replies(chat, exported.text, format=format)
    assert report["lines"] and all(line["does"] == [] and not line["error"] for line in report["lines"])
    assert chat.http.get("/v1/models/chat").json()["head"] == head
