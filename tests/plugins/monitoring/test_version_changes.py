"""What changed between two versions: which of the newest questions are answered otherwise."""

from typing import Any

import httpx
import pytest

from online.client import Client
from tests.api.auth.access import ADMIN_KEY
from tests.api.rest.test_versions import DOWN, UP, VEC, put_label
from tests.conftest import Start
from tests.support import Service, erase, until

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'


def changes(service: Service, model: str, version: str | int, query: str = "") -> httpx.Response:
    return service.http.get(f"/v1/models/{model}/versions/{version}/changes{query}")


def found(service: Service, model: str, version: str | int, query: str = "") -> dict[str, Any]:
    content: dict[str, Any] = changes(service, model, version, query).raise_for_status().json()
    return content


def learn(client: Client, items: list[dict[str, Any]]) -> str:
    offset = client.feedback(items)[-1]["offset"]
    client.wait_until_learned(offset, 60)
    return client.predict(["x"] if "text" in items[0] else [items[0]["input"]], min_offset=offset, record=False)[
        "model_version"
    ]


def test_the_questions_that_a_version_answers_otherwise_are_listed_with_what_was_said(start: Start) -> None:
    service = start(VEC)
    client = service.client("vec")
    first = learn(client, [{"input": UP, "label": "one"}, {"input": DOWN, "label": "two"}] * 4)
    put_label(service, "first", first).raise_for_status()
    answer = client.predict([UP, UP, DOWN])
    assert [each["label"] for each in answer["predictions"]] == ["one", "one", "two"]
    client.feedback([{"prediction_id": answer["prediction_ids"][0], "label": "one"}])
    second = learn(client, [{"input": UP, "label": "two"}] * 40)

    content = until(lambda: (now := found(service, "vec", second, "?since=first"))["questions"] == 2 and now)
    assert (content["version"], content["since"]) == (second, first)
    assert (content["unchanged"], content["better"], content["worse"]) == (1, 0, 1)
    (change,) = content["changes"]
    assert change["question"] == UP and change["asked"] == 2
    assert (change["before"]["choice"], change["after"]["choice"]) == ("one", "two")
    assert change["said"] == {"reward": None, "label": "one", "correction": None, "choice": "one"}
    assert change["better"] is False

    back = found(service, "vec", first, f"?since={second}")
    assert (back["better"], back["worse"]) == (1, 0)
    same = found(service, "vec", second, f"?since={second}&questions=1")
    assert (same["questions"], same["changes"]) == (1, [])
    assert found(service, "vec", "latest")["version"] == second

    refusals: list[tuple[str | int, str, int]]
    refusals = [(9_999, f"?since={first}", 404), (second, "?since=nothing", 404), (second, "?since=no/label", 400)]
    refusals += [(second, f"?since={first}&questions={count}", 400) for count in (0, 1_001)]
    for version, query, status in refusals:
        assert changes(service, "vec", version, query).status_code == status, query
    assert changes(service, "absent", second).status_code == 404


@pytest.mark.long
def test_a_corrected_reply_shows_its_texts_and_is_gone_after_an_erasure(start: Start) -> None:
    service = start(CHAT)
    client = service.client("chat", user="u1")
    before = service.wait_learned("chat", 1)["model_version_status"][0]["version"]
    service.http.put("/v1/models/chat/version_labels/first", json={"version": before}).raise_for_status()
    answer = client.predict(["When do you open?"])
    receipt = client.teach(answer["prediction_ids"][0], "We open at ten now.", scope="question")
    client.wait_until_learned(receipt["offset"], 60)
    content = until(lambda: (now := found(service, "chat", "latest", "?since=first"))["questions"] == 1 and now)
    (change,) = content["changes"]
    assert change["question"] == "When do you open?"
    assert (change["before"]["text"], change["after"]["text"]) == ("We open at nine.", "We open at ten now.")
    assert change["better"] is True and content["better"] == 1
    erase(client, "u1")
    assert changes(service, "chat", "latest", "?since=first").status_code == 404  # that version is gone as well
    assert found(service, "chat", "latest", "?since=latest")["questions"] == 0


@pytest.mark.long
def test_only_a_curator_sees_what_changed(start: Start) -> None:
    service = start(VEC, admin_key=ADMIN_KEY)
    assert changes(service, "vec", 1).status_code in (401, 403)
