"""The list of replies, page by page, when its parts came, and ratings that are counted alike everywhere."""

import json
from collections.abc import Iterator
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from openpyxl import Workbook

from online.cli.access.stopped_service import learn_everything
from online.evaluation.sources.log_export import LogExport
from online.schemas.events import is_positive
from tests.api.auth.access import CHAT, ask, bearer, browse, build, new_key, rate
from tests.conftest import REPERTOIRE

ROOT = "/v1/models/chat"
REPLIES = f"{ROOT}/replies"
IDS = [str(reply["id"]) for reply in REPERTOIRE]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    app = build(tmp_path / "replies", CHAT)
    with browse(app):
        yield app


@pytest.fixture
def curator(app: FastAPI) -> TestClient:
    return browse(app, **bearer(new_key(app, "predict", "feedback", "teach", "curate", name="carl")))


def read(client: TestClient, path: str = REPLIES, **params: Any) -> dict[str, Any]:
    response = client.get(path, params=params)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def ids(answer: dict[str, Any]) -> list[str]:
    return [reply["id"] for reply in answer["replies"]]


# pages


def test_without_a_limit_all_replies_are_listed_in_their_order(curator: TestClient) -> None:
    answer = read(curator)
    assert ids(answer) == IDS and answer["next"] is None and answer["found"] == len(IDS)
    assert answer["counts"] == {"all": len(IDS), "given": len(IDS), "retired": 0, "never_right": 0}


@pytest.mark.few(2)
@pytest.mark.parametrize("sort", ["listed", "newest", "most_rated", "least_right", "by_text"])
def test_the_pages_of_an_order_are_the_whole_list(curator: TestClient, sort: str) -> None:
    found, after = list[str](), dict[str, str]()
    while True:
        answer = read(curator, sort=sort, limit=2, **after)
        assert answer["found"] == len(IDS) and len(answer["replies"]) <= 2
        found += ids(answer)
        if answer["next"] is None:
            break
        after = {"after": answer["next"]}
    assert found == ids(read(curator, sort=sort)) and len(found) == len(IDS)


def test_a_page_continues_where_it_was_when_a_reply_was_added_and_another_retired(curator: TestClient) -> None:
    first = read(curator, limit=2, show="given")
    curator.delete(f"{REPLIES}/{IDS[0]}").raise_for_status()
    new = curator.post(REPLIES, json={"text": "Pens are here."}).json()["id"]
    rest = read(curator, limit=100, show="given", after=first["next"])
    assert ids(rest) == [*IDS[2:], new] and rest["next"] is None
    assert rest["counts"] == {"all": len(IDS) + 1, "given": len(IDS), "retired": 1, "never_right": 0}
    assert ids(read(curator, show="retired")) == [IDS[0]]


def test_a_search_is_paged_and_counted(curator: TestClient) -> None:
    first = read(curator, q="how do i", limit=1)
    assert first["found"] == 3 and first["counts"]["all"] == len(IDS)
    rest = read(curator, q="how do i", limit=10, after=first["next"])
    assert [*ids(first), *ids(rest)] == ids(read(curator, q="how do i")) and rest["found"] == 3


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "text", ["👩\u200d🚀 launches at noon.", "\u2028Line", "\u202eright to left", "Tab\tand\nline"]
)
def test_a_page_ends_at_any_text(curator: TestClient, text: str) -> None:
    curator.post(REPLIES, json={"text": text}).raise_for_status()
    listed = ids(read(curator, sort="by_text"))
    found, after = list[str](), dict[str, str]()
    for _ in listed:
        answer = read(curator, sort="by_text", limit=1, **after)
        found += ids(answer)
        after = {"after": str(answer["next"])}
    assert found == listed and answer["next"] is None


PLACES = (
    *("", "nonsense", "[]", "{}", "3", "null", '["listed"]', '["newest",1,"a"]', '["listed",1]', '["listed","1","a"]'),
    *('["listed",1.5,"a"]', '["listed",true,"a"]', '["listed",1,"a\\u0000"]', '["listed",1,"\\ud800"]', "[" * 700),
    *('["listed",9223372036854775808,"a"]', '["listed",NaN,"a"]', '["listed",1,"a",2]'),
)


@pytest.mark.few(4)
@pytest.mark.parametrize("after", PLACES)
def test_a_place_of_another_list_is_refused(curator: TestClient, after: str) -> None:
    response = curator.get(REPLIES, params={"after": after})
    assert response.status_code == 400 and "is not the `next` of a list of replies" in response.json()["error"]


@pytest.mark.parametrize(
    "params", [{"limit": 0}, {"limit": 1_001}, {"sort": "random"}, {"show": "some"}, {"after": "x" * 801}]
)
def test_invalid_parameters_are_refused(curator: TestClient, params: dict[str, Any]) -> None:
    assert curator.get(REPLIES, params=params).status_code == 400


# when things came


def test_a_reply_its_questions_and_its_feedback_have_the_instants_at_which_they_came(
    app: FastAPI, curator: TestClient
) -> None:
    before = datetime.fromisoformat(read(curator, f"{REPLIES}/{IDS[0]}")["created_at"])
    taught = rate(curator, input="A pen?", correction="Pens are here.").json()["receipts"][0]
    (new,) = [each for each in read(curator)["replies"] if each["text"] == "Pens are here."]
    curator.put(f"{REPLIES}/{new['id']}", json={"examples": ["Is there a pen?"]}).raise_for_status()
    details = read(curator, f"{REPLIES}/{new['id']}")
    given = read(curator, f"{ROOT}/feedback/{taught['id']}")
    (example,), (feedback,) = details["examples"], details["taught"]
    assert details["created_at"] == new["created_at"] == feedback["created_at"] and given["status"] == "accepted"
    added, asked = (datetime.fromisoformat(each["created_at"]) for each in (details, example))
    assert before <= added <= asked and added.utcoffset() is not None


# ratings


def count_in_export(app: FastAPI, folder: Path) -> tuple[int, int]:
    """How many ratings of answers stand in an exported log, and how many of those are good."""
    workspace = app.state.runtime.workspace
    path = folder / "log.jsonl"
    LogExport(workspace, CHAT).write(path, lambda done, of: None)
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    answers = {line["prediction"]["id"]: line["prediction"]["choice"] for line in lines if "prediction" in line}
    events = {line["event"]["offset"]: line["event"] for line in lines if "event" in line}
    taken_back = {event["target"]["offset"] for event in events.values() if event.get("target") is not None}
    standing = [
        event
        for offset, event in events.items()
        if offset not in taken_back and answers.get(event.get("prediction_id")) is not None
    ]
    good = [
        event
        for event in standing
        if (is_positive(event["reward"]) if event["kind"] == "reward" else event["label"] == event["choice"])
    ]
    return len(standing), len(good)


def test_ratings_that_stand_are_counted_alike_everywhere(app: FastAPI, curator: TestClient, tmp_path: Path) -> None:
    learn_everything(app.state.runtime.workspace)
    head = app.state.runtime.models["chat"].stream.head()
    tina = browse(app, **bearer(new_key(app, "predict", "feedback", "teach", name="tina")))
    answered = ask(tina, "When do you open?", min_offset=head, timeout_ms=60_000)
    id = answered["prediction_ids"][0]
    unanswered = ask(tina, "Do you lend telescopes?")
    assert unanswered["predictions"][0]["reply"] is None and answered["predictions"][0]["reply"]["id"] == "hours"
    rate(tina, prediction_id=unanswered["prediction_ids"][0], correction="Telescopes are lent for a week.")

    def counts() -> list[tuple[int, int]]:
        """(ratings, good ones) of each place."""
        listed, one = read(curator)["replies"], read(curator, f"{REPLIES}/hours")
        usage, health = read(curator, f"{ROOT}/usage")["total"], read(curator, f"{ROOT}/health")["ratings"]
        curve, questions = read(curator, f"{ROOT}/curve"), read(curator, f"{ROOT}/usage/questions")["questions"]
        return [
            (sum(each["rated"] for each in listed), sum(each["right"] for each in listed)),
            (one["rated"], one["right"]),
            (usage["rated"], usage["good"]),
            (usage["good"] + usage["bad"], usage["good"]),
            (health["rated"], health["good"]),
            (curve["rated"], curve["right"]),
            (sum(each["good"] + each["bad"] for each in questions), sum(each["good"] for each in questions)),
            count_in_export(app, tmp_path),
        ]

    def complaints() -> int:
        """The items of the inbox about the answer: what is not good and stands, and no curator has looked at."""
        items = [item for group in read(curator, f"{ROOT}/inbox")["groups"] for item in group["items"]]
        return sum(item["prediction_id"] == id for item in items)

    def check(rated: int, good: int, judged: int) -> None:
        assert counts() == [(rated, good)] * 8 and complaints() == rated - good
        assert read(curator, f"{ROOT}/curve")["judged"] == judged

    check(0, 0, judged=0)
    rate(tina, prediction_id=id, reward=0.0)
    check(1, 0, judged=1)
    rate(tina, prediction_id=id, reward=0.0, reason="outdated", comment="You moved.")  # a chip
    check(1, 0, judged=1)
    lesson = rate(tina, prediction_id=id, correction="We open at ten.").json()["receipts"][0]["id"]
    check(1, 0, judged=2)
    tina.delete(f"{ROOT}/feedback/{lesson}").raise_for_status()
    check(0, 0, judged=2)
    rate(tina, prediction_id=id, reward=0.0)
    check(1, 0, judged=3)
    rate(tina, prediction_id=id, label="hours")  # another chip: the reply was right after all
    check(1, 1, judged=4)
    rate(curator, prediction_id=id, reward=1.0)  # another person
    check(2, 2, judged=5)


# files


def test_a_workbook_is_imported_and_the_answer_names_the_sheets_that_were_not_read(curator: TestClient) -> None:
    book, file = Workbook(), BytesIO()
    for row in (["text", "examples"], ["Pens are here.", "Where are pens?\nPens?"]):
        book.active.append(row)
    book.create_sheet("Notes")
    book.save(file)
    answer = curator.post(f"{REPLIES}:import", params={"format": "xlsx"}, content=file.getvalue()).json()
    assert (answer["sheet"], answer["other_sheets"], answer["bad"]) == ("Sheet", ["Notes"], 0)
    assert answer["lines"][0]["examples"] == 2 and answer["lines"][0]["does"] == ["new"]


def test_an_older_workbook_is_refused_in_one_sentence(curator: TestClient) -> None:
    xls = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)
    refused = curator.post(f"{REPLIES}:import", params={"format": "xlsx"}, content=xls)
    assert refused.status_code == 400 and "(.xls), which is not read: save it as .xlsx" in refused.text


def test_an_invalid_line_of_an_import_has_its_error_as_a_code_beside_the_sentence(curator: TestClient) -> None:
    file = '{"text": "Pens are here."}\n\n{"text": "Ink", "examples": ["Ink?", 4]}\nPens are here.\n'
    answer = curator.post(f"{REPLIES}:import", params={"dry_run": True}, content=file).json()
    good, entry, prose = answer["lines"]
    assert (good["error"], good["problem"], answer["bad"]) == (None, None, 2)
    assert (entry["line"], entry["error"]) == (3, '"examples, entry 2" must be text in quotation marks')
    assert entry["problem"] == {"code": "not_text", "field": "examples", "entry": 2, "about": None}
    assert (prose["line"], prose["problem"]["code"]) == (4, "not_json")
