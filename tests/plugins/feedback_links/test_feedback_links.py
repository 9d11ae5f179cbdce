"""Feedback through the presigned URL of an answer, on a real service: its holder may rate that answer and nothing else."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from online.plugins.feedback_links.signed_urls import build_message
from online.state.signing_keys import SigningKeys, rotate_signing_keys
from tests.conftest import Start
from tests.support import Service, erase

OPEN = "When do you open?"


def ask(service: Service, model: str = "chat", instance: Any = OPEN, **more: Any) -> tuple[str, str]:
    """Predict; return (prediction_id, feedback_url)."""
    body = {"instances": [instance], "feedback_urls": True, **more}
    answer = service.http.post(f"/v1/models/{model}:predict", json=body).json()
    return answer["prediction_ids"][0], answer["feedback_urls"][0]


@pytest.fixture
def link(service: Service) -> Iterator[tuple[str, str]]:
    """(prediction_id, feedback_url). The feedback given through it is retracted and unlearned afterwards."""
    service.wait_learned("chat", 1)
    id, url = ask(service)
    yield id, url
    service.wait_learned("chat", httpx.delete(url).json().get("offset", 0))


def head(service: Service, model: str = "chat") -> int:
    return int(service.http.get(f"/v1/models/{model}").json()["head"])


def feedback_status(service: Service, id: str, model: str = "chat") -> dict[str, Any]:
    status: dict[str, Any] = service.http.get(f"/v1/models/{model}/feedback/{id}").json()
    return status


def test_every_recorded_answer_has_a_feedback_link_where_it_is_asked_for(service: Service) -> None:
    service.wait_learned("chat", 1)
    body = {"instances": [OPEN, "Can I print here?"], "feedback_urls": True}
    answer = service.http.post("/v1/models/chat:predict", json=body).json()
    for id, url in zip(answer["prediction_ids"], answer["feedback_urls"], strict=True):
        assert url.startswith(f"{service.url}/v1/models/chat/feedback?prediction_id={id}&expires=")
    for without in ({**body, "record": False}, {"instances": [OPEN]}):
        assert service.http.post("/v1/models/chat:predict", json=without).json()["feedback_urls"] == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_has_a_feedback_link(service: Service, stream: bool) -> None:
    service.wait_learned("chat", 1)
    body = {"model": "chat", "messages": [{"role": "user", "content": OPEN}], "stream": stream}
    response = service.http.post("/v1/chat/completions", json=body)
    url = response.headers["X-Feedback-Url"]
    assert url in response.text and httpx.post(url, json={"reward": 1}).status_code == 202
    service.wait_learned("chat", httpx.delete(url).json()["offset"])


def test_opening_a_link_changes_nothing(service: Service, link: tuple[str, str]) -> None:
    _, url = link
    before = head(service)
    for method in ("GET", "HEAD"):
        page = httpx.request(method, url)
    page = httpx.get(url)
    assert page.status_code == 200 and "How was this answer?" in page.text
    assert page.headers["Cache-Control"] == "no-store" and page.headers["Referrer-Policy"] == "same-origin"
    assert "http" not in page.text
    assert head(service) == before


def test_the_page_shows_the_question_and_the_answer_as_plain_texts(service: Service) -> None:
    question = "Who <b>waters</b> the plants?"
    taught = service.client("chat").feedback([{"input": question, "correction": "The *cat*.\n\n<script>1</script>"}])
    with service.client("chat") as client:
        client.wait_until_learned(taught[0]["offset"], 60)
    page = httpx.get(ask(service, instance=question)[1]).text
    assert "Who &lt;b&gt;waters&lt;/b&gt; the plants?" in page
    assert "The *cat*.\n\n&lt;script&gt;1&lt;/script&gt;" in page and "<script" not in page
    service.client("chat").retract(taught[0]["id"])


def test_the_page_is_in_the_language_of_the_browser(link: tuple[str, str]) -> None:
    german = httpx.get(link[1], headers={"Accept-Language": "de-AT,de;q=0.9,en;q=0.5"})
    assert '<html lang="de">' in german.text and "Wie war diese Antwort?" in german.text and OPEN in german.text
    assert german.headers["Content-Language"] == "de"
    assert '<html lang="en">' in httpx.get(link[1], headers={"Accept-Language": "fr"}).text


def test_the_page_allows_nothing_but_its_own_style(link: tuple[str, str]) -> None:
    policy = httpx.get(link[1]).headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ") and "script-src" not in policy and "unsafe" not in policy


def test_the_page_of_an_erased_answer_says_so(service: Service) -> None:
    _, url = ask(service, user="ella")
    erase(service.client("chat"), "ella")
    response = httpx.get(url, headers={"Accept": "text/html"})
    assert response.status_code == 404 and "There is nothing left to rate" in response.text
    assert httpx.get(url).json()["error"].startswith("chat has no prediction")


def test_the_page_of_a_deleted_conversation_shows_the_answer_without_the_question(service: Service) -> None:
    _, url = ask(service, user="dora", conversation="c-dora")
    user = {"X-User": "dora"}
    assert service.http.delete("/v1/models/chat/conversations/c-dora", headers=user).status_code == 200
    page = httpx.get(url).text
    assert "The question was deleted." in page and OPEN not in page and "We open at nine." in page


def test_an_empty_or_too_long_correction_is_answered_by_the_page(service: Service, link: tuple[str, str]) -> None:
    empty = httpx.post(link[1], data={"correction": "  "})
    assert empty.status_code == 400 and "Please write an answer first." in empty.text and OPEN in empty.text
    long = httpx.post(link[1], data={"correction": 8_001 * "x"}, headers={"Accept-Language": "de"})
    assert long.status_code == 413 and "Zu lang: 8001 von 8000 Zeichen." in long.text


def test_the_classes_of_a_classifier_are_buttons(service: Service) -> None:
    _, url = ask(service, "lab", [1, 1])
    assert re.findall(r'name="label" value="([^"]+)" aria-pressed="false"', httpx.get(url).text) == [
        "class 0",
        "class 1",
        "class 2",
    ]
    assert 'value="class 2" aria-pressed="true"' in httpx.post(url, data={"label": "class 2"}).text
    service.wait_learned("lab", httpx.delete(url).json()["offset"])


@pytest.mark.parametrize("problem", ["expired", "changed"])
def test_a_browser_with_a_refused_link_gets_a_page(service: Service, problem: str) -> None:
    id, url = ask(service, "vec", [0, 0, 1, 1])
    if problem == "expired":
        signature = SigningKeys(service.state).sign("links", build_message("vec", id, 1_700_000_000, ""))
        url = f"{service.url}/v1/models/vec/feedback?prediction_id={id}&expires=1700000000&signature={signature}"
    else:
        url = url[:-3]
    response = httpx.get(url, headers={"Accept": "text/html,*/*;q=0.8"})
    words = {"expired": "This link has expired", "changed": "This link is not valid"}[problem]
    assert response.status_code == 403 and words in response.text


def test_posted_feedback_is_learned(service: Service) -> None:
    id, url = ask(service, instance="Where can I tie up my donkey?")
    receipt = httpx.post(url, json={"correction": "Donkeys wait in the yard.", "comment": "of course"}).json()
    assert receipt["status"] == "accepted" and receipt["id"] == f"link-{id}.1"
    answer = service.http.post(
        "/v1/models/chat:predict",
        json={"instances": ["Where can I tie up my donkey?"], "min_offset": receipt["offset"], "timeout_ms": 60_000},
    ).json()
    assert answer["predictions"][0]["reply"]["text"] == "Donkeys wait in the yard."
    service.wait_learned("chat", httpx.delete(url).json()["offset"])


@pytest.mark.parametrize("content_type", [None, "application/json", "application/x-www-form-urlencoded", "nonsense"])
def test_json_is_read_with_any_content_type(link: tuple[str, str], content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    response = httpx.post(link[1], content=b' {"reward": 1}', headers=headers)
    assert response.status_code == 202 and response.json()["status"] == "accepted"


def test_repeated_feedback_has_no_second_effect(service: Service, link: tuple[str, str]) -> None:
    _, url = link
    first = httpx.post(url, json={"reward": 1}).json()
    before = head(service)
    assert httpx.post(url, json={"reward": 1}).json() == first
    assert httpx.post(url, json={"reward": 1, "comment": "another comment"}).json() == first
    assert head(service) == before


def test_concurrent_equal_feedback_is_recorded_once(service: Service, link: tuple[str, str]) -> None:
    _, url = link
    before = head(service)
    with ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(lambda _: httpx.post(url, json={"reward": 1}, timeout=30).json(), range(16)))
    assert len({receipt["id"] for receipt in receipts}) == 1 and head(service) == before + 1


def test_changed_feedback_replaces_the_first(service: Service, link: tuple[str, str]) -> None:
    id, url = link
    httpx.post(url, json={"reward": 1})
    second = httpx.post(url, json={"reward": 0}).json()
    assert second["id"] == f"link-{id}.2"
    assert feedback_status(service, f"link-{id}.1")["status"] == "retracted"
    assert feedback_status(service, f"link-{id}.2")["status"] in ("accepted", "learned")


def test_only_the_last_of_many_changes_is_active(service: Service, link: tuple[str, str]) -> None:
    id, url = link
    for turn in range(20):
        httpx.post(url, json={"reward": turn % 2})
    active = [turn for turn in range(1, 21) if feedback_status(service, f"link-{id}.{turn}")["status"] != "retracted"]
    assert active == [20]


def test_a_link_retracts_only_its_own_feedback(service: Service, link: tuple[str, str]) -> None:
    id, url = link
    assert httpx.delete(url).status_code == 404
    httpx.post(url, json={"reward": 0})
    retraction = httpx.delete(url)
    assert retraction.status_code == 202 and retraction.json()["status"] == "retracted"
    assert httpx.delete(url).json() == retraction.json()
    assert httpx.post(url, json={"reward": 0}).json()["id"] == f"link-{id}.2"


def test_the_page_gives_and_retracts_feedback(service: Service, link: tuple[str, str]) -> None:
    id, url = link
    page = httpx.post(url, data={"reward": "0", "comment": "not <b>what</b> I asked"}).text
    assert "Thank you" in page and "did not help" in page and "&lt;b&gt;what" in page
    assert re.search(r'value="0" aria-pressed="true"', page) and "Take it back" in httpx.get(url).text
    assert feedback_status(service, f"link-{id}.1")["status"] in ("accepted", "learned")
    assert "Thank you" not in httpx.post(url, data={"take_back": "yes"}).text
    assert feedback_status(service, f"link-{id}.1")["status"] == "retracted"


@pytest.mark.parametrize(
    ("model", "instance", "fields"),
    [("chat", OPEN, {"reward", "correction"}), ("num", [0, 0], {"label"})],
)
def test_the_page_has_the_fields_that_the_model_can_learn_from(
    service: Service, model: str, instance: Any, fields: set[str]
) -> None:
    service.wait_learned("chat", 1)
    _, url = ask(service, model, instance)
    assert fields_of(url) == fields


def fields_of(url: str) -> set[str]:
    """The names of the fields that the page of a link has."""
    return set(re.findall(r'name="(reward|label|correction)"', httpx.get(url).text))


@pytest.mark.long
def test_only_an_answer_that_names_a_class_can_be_rated(start: Start) -> None:
    service = start('[[models]]\nname = "txt"\nkind = "classifier"\noptions = { input = "text" }\n')
    _, url = ask(service, "txt", "hello")
    assert fields_of(url) == {"label"}
    service.wait_learned("txt", httpx.post(url, json={"label": "greeting"}).json()["offset"])
    _, url = ask(service, "txt", "hello")
    assert fields_of(url) == {"reward", "label"}


def test_feedback_through_a_link_belongs_to_the_user_who_asked(service: Service) -> None:
    _, url = ask(service, user="bert")
    httpx.post(url, json={"reward": 1, "comment": "my own words"})
    assert erase(service.client("chat"), "bert")["feedback"] == 1


@pytest.mark.long
def test_a_link_is_valid_after_a_restart(start: Start) -> None:
    service = start()
    service.wait_learned("chat", 1)
    id, url = ask(service)
    service.stop()
    restarted = start()
    assert httpx.post(url.replace(service.url, restarted.url), json={"reward": 1}).json()["id"] == f"link-{id}.1"


def test_the_address_of_the_links_can_be_configured(start: Start) -> None:
    service = start(public_url="https://ask.example.org/bot/")
    service.wait_learned("chat", 1)
    id, url = ask(service)
    assert url.startswith(f"https://ask.example.org/bot/v1/models/chat/feedback?prediction_id={id}")


def test_a_rotation_takes_effect_in_a_running_service(start: Start) -> None:
    service = start()
    _, before = ask(service, "vec", [0, 0, 1, 1])
    (rotated,) = rotate_signing_keys(service.state, ["links"], grace_days=0)
    assert httpx.post(before, json={"label": "a"}).status_code == 403
    _, after = ask(service, "vec", [0, 0, 1, 1])
    assert f"&signature={rotated.id}." in after and httpx.post(after, json={"label": "a"}).status_code == 202


@pytest.mark.long
def test_without_public_url_a_service_that_others_can_reach_gives_out_no_links(start: Start) -> None:
    service = start(open=True, flags=("--host", "0.0.0.0"))
    service.wait_learned("chat", 1)
    answer = service.http.post("/v1/models/chat:predict", json={"instances": [OPEN], "feedback_urls": True}).json()
    body = {"model": "chat", "messages": [{"role": "user", "content": OPEN}]}
    completion = service.http.post("/v1/chat/completions", json=body)
    assert len(answer["prediction_ids"]) == 1 and answer["feedback_urls"] == []
    assert "X-Feedback-Url" not in completion.headers and "feedback_url" not in completion.json()
    assert "answers carry no feedback URLs remedy=" in service.output and "set public_url" in service.output


# refusals


def test_an_expired_link_is_refused(service: Service) -> None:
    id, _ = ask(service, "vec", [0, 0, 1, 1])
    signature = SigningKeys(service.state).sign("links", build_message("vec", id, 1_700_000_000, ""))
    url = f"{service.url}/v1/models/vec/feedback?prediction_id={id}&expires=1700000000&signature={signature}"
    response = httpx.post(url, json={"label": "a"})
    assert response.status_code == 403 and "expired on 2023-11-14; ask again" in response.json()["error"]


def tamper(url: str, how: str) -> str:
    other = url.replace("/models/chat/", "/models/txt/")
    return {
        "another signature": re.sub(r"signature=.", lambda m: m[0][:-1] + ("1" if m[0][-1] == "0" else "0"), url),
        "half a signature": url[:-16],
        "no signature": url.partition("&signature")[0] + "&signature=",
        "another prediction": re.sub(r"prediction_id=\w", lambda m: m[0][:-1] + ("f" if m[0][-1] == "0" else "0"), url),
        "another model": other,
        "a later expiry": re.sub(r"expires=(\d+)", lambda m: f"expires={int(m[1]) + 1}", url),
        "no expiry": re.sub(r"&expires=\d+", "", url),
        "letters outside ASCII": url[:-2] + "%C3%A9",
    }[how]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    "how",
    [
        "another signature",
        "half a signature",
        "no signature",
        "another prediction",
        "another model",
        "a later expiry",
        "no expiry",
        "letters outside ASCII",
    ],
)
def test_a_changed_url_is_refused(service: Service, how: str, method: str) -> None:
    service.wait_learned("chat", 1)
    _, url = ask(service)
    before = head(service)
    response = httpx.request(method, tamper(url, how), json={"reward": 1} if method == "POST" else None)
    assert response.status_code == 403 and "the signature of this feedback URL is not valid" in response.json()["error"]
    assert head(service) == before


def test_a_link_signed_by_another_service_is_refused(service: Service, tmp_path: Path) -> None:
    id, _ = ask(service)
    signature = SigningKeys(tmp_path).sign("links", build_message("chat", id, 4_000_000_000, ""))
    url = f"{service.url}/v1/models/chat/feedback?prediction_id={id}&expires=4000000000&signature={signature}"
    assert httpx.post(url, json={"reward": 1}).status_code == 403


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{}", "none of them"),
        (b'{"reward": 1, "correction": "x"}', "reward and correction"),
        (b'{"reward": 2}', "less than or equal to 1"),
        (b'{"prediction_id": "x", "reward": 1}', "prediction_id"),
        (b"reward", "Invalid JSON"),
    ],
)
def test_invalid_feedback_is_refused(service: Service, body: bytes, words: str) -> None:
    service.wait_learned("chat", 1)
    _, url = ask(service)
    before = head(service)
    response = httpx.post(url, content=body)
    assert response.status_code == 400 and words in response.json()["error"]
    assert head(service) == before


def test_a_prediction_id_without_a_signature_is_refused(service: Service) -> None:
    response = service.http.post("/v1/models/chat/feedback?prediction_id=x", json={"reward": 1})
    assert response.status_code == 400 and "signature" in response.json()["error"]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_unsigned_address_names_the_one_of_all_feedback(service: Service, method: str) -> None:
    response = service.http.request(method, "/v1/models/vec/feedback", json={"input": [0, 1], "label": "a"})
    assert response.status_code == 400
    assert response.json()["error"].endswith("other feedback goes to POST /v1/models/vec:feedback")
