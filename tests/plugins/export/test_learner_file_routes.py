"""The files with which devices answer and learn without the service: who may have them, what is in them, and when."""

import hashlib

import httpx
import pytest

from online.models.exchange.sums_file import read_metadata
from online.plugins.export.learner_file import read_learner_file
from tests.conftest import Start
from tests.support import Service, until

VEC = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
ADMIN = {"X-Admin-Key": "open sesame"}
EXPORT = "/v1/models/vec/versions/{version}/export?format=learner"


def teach(service: Service, **headers: str) -> str:
    """Teach two classes; return a version that has learned them, whose sums are on the disk."""
    items = [{"input": point, "label": label} for point, label in (([1, 0], "up"), ([0, 1], "down"))] * 3
    service.http.headers.update(headers)
    service.http.post("/v1/models/vec:feedback", json={"feedback": items}).raise_for_status()
    service.wait_learned("vec", len(items))
    return str(until(lambda: find_durable(service, len(items)), what="a durable version"))


def find_durable(service: Service, learned_until: int) -> str | None:
    newest = service.versions("vec")[0]
    return newest["version"] if newest["durable"] and newest["learned_until"] == learned_until else None


def key_of(service: Service, *scopes: str) -> dict[str, str]:
    body = {"name": "-".join(scopes), "scopes": list(scopes)}
    created = service.http.post("/v1/keys", json=body, headers=ADMIN).raise_for_status().json()
    return {"X-API-Key": created["key"]}


def test_a_device_goes_on_from_exactly_what_the_newest_version_on_the_disk_has_learned(start: Start) -> None:
    service = start(VEC)
    version = teach(service)
    response = service.http.get(EXPORT.format(version=version))
    assert response.status_code == 200, response.text
    assert response.headers["ETag"] == f'"{hashlib.sha256(response.content).hexdigest()}"'
    meta = read_metadata(response.content)
    assert (meta["model"], meta["version"], meta["learned_until"]) == ("vec", version, 6)
    learned = read_learner_file(response.content)
    assert learned.fingerprint() == service.versions("vec")[0]["state_sha256"]

    known = {"If-None-Match": response.headers["ETag"]}
    assert service.http.get(EXPORT.format(version=version), headers=known).status_code == 304
    assert service.http.get(EXPORT.format(version=999)).status_code == 404

    given = service.http.post("/v1/models/vec:feedback", json={"feedback": [{"input": [1, 1], "label": "both"}]})
    service.wait_learned("vec", given.json()["receipts"][0]["offset"])
    live = service.versions("vec")[0]
    response = service.http.get(EXPORT.format(version=live["version"]))
    assert response.headers["X-Model-Version"] == (live["version"] if live["durable"] else version)
    assert read_metadata(response.content)["version"] == response.headers["X-Model-Version"]


@pytest.mark.parametrize(("shares", "status"), [("false", 403), pytest.param("true", 200, marks=pytest.mark.long)])
def test_sums_are_for_curators_unless_the_model_shares_them(start: Start, shares: str, status: int) -> None:
    service = start(f"{VEC}share_sums = {shares}\n", admin_key="open sesame")
    version = teach(service, **ADMIN)
    url = service.url + EXPORT.format(version=version)
    card = service.http.get("/v1/models").json()["data"][0]
    assert card["share_sums"] is (shares == "true")
    assert httpx.get(url, headers=key_of(service, "predict", "feedback")).status_code == status
    assert httpx.get(url, headers=key_of(service, "predict", "curate")).status_code == 200
    assert httpx.get(url, headers=key_of(service, "feedback")).status_code == 403
    assert httpx.get(url).status_code == 401


def test_a_model_that_cannot_go_on_elsewhere_says_why(service: Service) -> None:
    for model, words in (("chat", "kind classifier"), ("tab", "tables are read by columns that grow")):
        refused = service.http.get(f"/v1/models/{model}/versions/latest/export?format=learner")
        assert refused.status_code == 409
        assert words in refused.json()["error"]


@pytest.mark.long
def test_the_repertoire_file_has_what_is_given_now(start: Start) -> None:
    service = start(CHAT)
    service.wait_learned("chat", 1)
    response = service.http.get("/v1/models/chat/replies:offline").raise_for_status()
    replies = {reply["id"]: reply for reply in response.json()["replies"]}
    assert replies["wifi"]["text"] == "The network is called Guest."
    assert replies["wifi"]["examples"] == ["Is there wifi?", "How do I get online?"]
    known = {"If-None-Match": response.headers["ETag"]}
    assert service.http.get("/v1/models/chat/replies:offline", headers=known).status_code == 304

    service.http.delete("/v1/models/chat/replies/wifi").raise_for_status()
    changed = service.http.get("/v1/models/chat/replies:offline", headers=known)
    assert changed.status_code == 200
    assert {reply["id"] for reply in changed.json()["replies"]} == {*replies} - {"wifi"}


def test_only_a_ranker_has_a_repertoire_file(service: Service) -> None:
    refused = service.http.get("/v1/models/vec/replies:offline")
    assert refused.status_code == 400
    assert "only a ranker has replies" in refused.json()["error"]
