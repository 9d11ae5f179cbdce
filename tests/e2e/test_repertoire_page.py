"""The repertoire page in a real Chromium: search, edit, add, retire, import and export replies; teach missing ones."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.conftest import Start
from tests.e2e.browsing import SIZES, Visits, check_accessible, check_fits, choose, shoot
from tests.support import Service

CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
UNANSWERED = ("Do you lend telescopes?", "Can I borrow a telescope?", "Is there a telescope to lend?")
LESSON = "Telescopes are lent for a week."
FILE = """{"id": "wifi", "text": "The network is called Library."}
{"text": "", "examples": ["Nothing?"]}
{"id": "hours", "text": "We open at nine."}
{"id": "pens", "text": "Pens are at the desk.", "examples": ["Where are pens?", "Can I have a pen?"]}
"""


def open_page(visits: Visits, service: Service, path: str = "", **options: object) -> Page:
    service.wait_learned("chat", 1)
    return visits.open(f"{service.url}/repertoire{path}", **options)  # type: ignore[arg-type]


def button(where: Page | Locator, name: str) -> Locator:
    return where.get_by_role("button", name=name, exact=True)


def rows(page: Page) -> Locator:
    return page.get_by_role("region", name="Replies", exact=True).get_by_role("listitem")


def go(page: Page, part: str) -> None:
    page.get_by_role("navigation", name="Repertoire sections").get_by_role("link", name=part).click()


def answer(service: Service, question: str) -> str | None:
    request = {"instances": [question], "record": False}
    reply = service.http.post("/v1/models/chat:predict", json=request).json()["predictions"][0]["reply"]
    return None if reply is None else str(reply["text"])


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_a_reply_is_found_edited_retired_and_restored_and_each_change_is_learned(
    visits: Visits, start: Start, width: int, scheme: str
) -> None:
    service = start(CHAT)
    page = open_page(visits, service, width=width, scheme=scheme, touch=width == 360)
    expect(rows(page)).to_have_count(5)
    shoot(page, f"repertoire-{scheme}")
    check_accessible(page)
    page.get_by_label("Search replies").fill("loan extend")  # only an example question has these words
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("found in an example question")
    rows(page).get_by_role("link").click()
    page.wait_for_url("**/repertoire?reply=renew")

    page.get_by_role("heading", name="Reply renew").wait_for()
    button(page, "Edit").click()
    page.get_by_label("What the reply says").fill("Renew it:\n\n- on your **account** page\n- at the desk")
    shoot(page, f"repertoire-edit-{scheme}")
    button(page, "Save").click()
    status = page.get_by_role("article").get_by_role("status")
    expect(status).to_contain_text("learned in version")
    expect(page.get_by_role("article").locator("strong")).to_have_text("account")
    expect(button(page, "Edit")).to_be_focused()
    assert answer(service, "Extend my loan") == "Renew it:\n\n- on your **account** page\n- at the desk"

    page.get_by_label("Add a question that it answers").fill("May I keep it longer?")
    button(page, "Add").click()
    examples = page.get_by_role("region", name="Example questions")
    expect(examples.get_by_role("listitem")).to_have_count(3)
    expect(status).to_contain_text("question added")
    button(examples, "Remove “Extend my loan”").click()
    button(page.get_by_role("dialog", name="Remove this question?"), "Remove").click()
    expect(examples.get_by_role("listitem")).to_have_count(2)
    expect(status).to_contain_text("un-learned in version")
    button(page, "Undo").click()
    expect(examples.get_by_role("listitem")).to_have_count(3)

    button(page, "Retire").click()
    check_accessible(page)
    button(page.get_by_role("dialog", name="Retire this reply?"), "Retire").click()
    expect(status).to_contain_text("no longer given since version")
    assert answer(service, "How do I renew a book?") is None
    shoot(page, f"repertoire-reply-{scheme}")
    check_accessible(page)
    button(page, "Restore").click()
    expect(status).to_contain_text("given again since version")
    assert "account" in (answer(service, "How do I renew a book?") or "")
    page.get_by_role("link", name="‹ All replies").click()
    expect(rows(page).get_by_role("link")).to_be_focused()


def test_a_reply_is_added_and_retired_by_keyboard_only(visits: Visits, start: Start) -> None:
    service = start(CHAT)
    page = open_page(visits, service, width=360)
    expect(rows(page)).to_have_count(5)
    button(page, "New reply").focus()
    page.keyboard.press("Enter")
    page.keyboard.type("Skis are in the attic.")
    page.keyboard.press("Tab")
    page.keyboard.type("Where are the skis?")
    shoot(page, "repertoire-new")
    check_accessible(page)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("region", name="New reply").get_by_role("status")).to_contain_text("learned in version")
    expect(button(page, "New reply")).to_be_focused()
    assert answer(service, "Where are the skis?") == "Skis are in the attic."
    expect(rows(page)).to_have_count(6)

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the link to the added reply
    expect(page.get_by_role("heading", name="Reply", exact=False, level=2)).to_be_focused()
    expect(button(page, "Retire")).to_be_visible()
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(button(page, "Retire")).to_be_focused()
    page.keyboard.press("Enter")
    expect(button(page, "Cancel")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article").get_by_role("status")).to_contain_text("no longer given since")
    page.go_back()
    expect(rows(page).last).to_contain_text("retired")
    expect(rows(page).last.get_by_role("link")).to_be_focused()
    page.get_by_label("Search replies").focus()
    page.keyboard.press("Tab")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(page.get_by_label("retired 1")).to_be_checked()
    expect(rows(page)).to_have_count(1)


def ask_unanswered_questions(service: Service) -> None:
    for question in (*UNANSWERED, "do you lend TELESCOPES?", "My cat is called Misty and likes fish"):
        service.http.post("/v1/models/chat:predict", json={"instances": [question], "user": "eve"})


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_unanswered_questions_are_taught_together_and_undone(
    visits: Visits, start: Start, width: int, scheme: str
) -> None:
    service = start(CHAT)
    service.wait_learned("chat", 1)
    ask_unanswered_questions(service)
    page = open_page(visits, service, "?part=unanswered", width=width, scheme=scheme)
    gap = page.get_by_role("group", name="telescope")
    expect(gap.get_by_role("listitem")).to_have_count(3)
    expect(gap).to_contain_text("2 times")
    shoot(page, f"repertoire-gaps-{scheme}")
    check_accessible(page)

    button(gap, "Give a reply").click()
    box = gap.get_by_label("What should the reply be?")
    expect(box).to_be_focused()
    expect(gap).to_contain_text("Suggested replies:")
    page.keyboard.type("stairs")
    expect(gap.get_by_text("Replies with these words")).to_be_visible()
    expect(button(gap, "The printer is by the stairs.")).to_be_visible()
    shoot(page, f"repertoire-teach-{scheme}")
    check_accessible(page)
    box.fill(LESSON)
    button(gap, "Teach all 3 questions").press("Enter")
    expect(gap.get_by_role("status")).to_contain_text("taught to 3 questions")
    expect(gap.get_by_role("status")).to_contain_text("learned in version")
    expect(button(gap, "Undo")).to_be_focused()
    assert [answer(service, question) for question in UNANSWERED] == [LESSON] * 3
    expect(page.get_by_role("link", name="Unanswered")).to_contain_text("1")

    page.keyboard.press("Enter")
    expect(gap.get_by_role("status")).to_contain_text("un-learned in version")
    assert answer(service, UNANSWERED[0]) is None
    button(gap, "Give a reply").click()
    box.fill("printer")
    button(gap, "The printer is by the stairs.").click()
    expect(gap.get_by_role("status")).to_contain_text("learned in version")
    assert answer(service, UNANSWERED[0]) == "The printer is by the stairs."


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_a_file_is_previewed_with_its_invalid_lines_before_it_is_imported(
    visits: Visits, start: Start, tmp_path: Path, width: int, scheme: str
) -> None:
    service = start(CHAT)
    page = open_page(visits, service, "?part=file", width=width, scheme=scheme)
    shoot(page, f"repertoire-file-{scheme}")
    check_accessible(page)
    page.get_by_label("Choose a file").set_input_files(
        {"name": "replies.jsonl", "mimeType": "", "buffer": FILE.encode()}
    )
    lines = page.get_by_role("region", name="Changes by line").get_by_role("row")
    expect(lines).to_have_count(4)
    expect(lines.nth(1)).to_contain_text("Line 2: “text” is empty.")
    expect(lines.nth(1).get_by_role("rowheader")).to_have_text("2")
    expect(lines.nth(2)).to_contain_text("before: The network is called Guest.")
    expect(lines.nth(3)).to_contain_text("2 new example questions")
    assert page.locator("dl").inner_text().split() == ["new", "1", "changed", "1", "unchanged", "1", "invalid", "1"]
    expect(page.locator(".drop")).to_contain_text("replies.jsonl")
    expect(page.get_by_text("Choose another file")).to_be_visible()
    check_fits(page)
    assert page.locator(".table-box").evaluate("box => box.scrollWidth <= box.clientWidth")
    import_button = button(page, "Import 2 lines")
    expect(import_button).to_be_disabled()
    shoot(page, f"repertoire-import-{scheme}")
    check_accessible(page)
    assert answer(service, "Is there wifi?") == "The network is called Guest."

    page.get_by_label("Skip the invalid line").check()
    import_button.click()
    expect(page.get_by_role("status")).to_contain_text(["learned in version"])
    assert answer(service, "Is there wifi?") == "The network is called Library."
    assert answer(service, "Where are pens?") == "Pens are at the desk."

    for name, ending in (("JSONL", "jsonl"), ("CSV", "csv")):
        with page.expect_download() as download:
            page.get_by_role("link", name=f"Export as {name}", exact=True).click()
        assert download.value.suggested_filename == f"chat-replies.{ending}"
        exported = tmp_path / f"again.{ending}"
        download.value.save_as(exported)
        assert "Pens are at the desk." in exported.read_text()
        drop(page, exported)
        expect(page.get_by_role("heading", name=f"Changes in again.{ending}")).to_be_focused()
        assert page.locator("dl").inner_text().split()[1:6:2] == ["0", "0", "6"]
        button(page, "Cancel").click()


def drop(page: Page, file: Path) -> None:
    transfer = page.evaluate_handle(
        "([text, name]) => { const held = new DataTransfer(); held.items.add(new File([text], name)); return held; }",
        [file.read_text(), file.name],
    )
    page.locator(".drop").dispatch_event("drop", {"dataTransfer": transfer})


@pytest.mark.long
def test_replies_that_were_never_right_are_listed_and_the_chat_links_to_its_reply(visits: Visits, start: Start) -> None:
    service = start(CHAT)
    service.wait_learned("chat", 1)
    client = service.client("chat")
    for reward, question in ((0, "Can I print here?"), (0, "Where is the printer?"), (1, "When do you open?")):
        prediction = client.predict([question])
        receipt = client.feedback([{"prediction_id": prediction["prediction_ids"][0], "reward": reward}])[0]
    service.wait_learned("chat", receipt["offset"])
    page = open_page(visits, service, width=360)
    page.get_by_label("never right").check()
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("The printer is by the stairs.")
    expect(rows(page)).to_contain_text("rated 2 times, never right")
    shoot(page, "repertoire-never-right")
    check_accessible(page)

    choose(page, "Pages: online Repertoire", "Chat")
    page.get_by_label("Your question").fill("When do you open?")
    page.keyboard.press("Enter")
    choose(page.get_by_role("article").last, "More actions", "Edit this reply")
    expect(page.get_by_role("heading", name="Reply hours")).to_be_focused()
    expect(page.get_by_role("region", name="Feedback")).to_contain_text("When do you open?")
    expect(page.get_by_role("article")).to_contain_text("right 1 of 1 time")
    page.goto(f"{service.url}/repertoire?reply=nobody")
    expect(page.get_by_role("alert")).to_contain_text("no reply “nobody”")
    check_accessible(page)


@pytest.mark.long
def test_a_long_list_is_loaded_in_pages_and_searched_by_the_service(
    visits: Visits, start: Start, tmp_path: Path
) -> None:
    many = tmp_path / "many.jsonl"
    replies = [
        {"id": f"r{n}", "text": f"Reply {n} is about the shelf {n}.", "examples": [f"Where is box {n}?"]}
        for n in range(400)
    ]
    many.write_text("\n".join(map(json.dumps, replies)))
    service = start(CHAT, repertoire=str(many))
    page = open_page(visits, service)
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url) if "/replies?" in request.url else None)
    region = page.get_by_role("region", name="Replies", exact=True)
    expect(region.get_by_role("status")).to_have_text("400 replies")
    expect(rows(page)).to_have_count(50)
    button(page, "Show more (350 left)").scroll_into_view_if_needed()
    expect(rows(page).nth(99)).to_be_attached()
    assert any("after=" in url for url in asked) and all("limit=" in url for url in asked)

    page.get_by_label("Search replies").fill("shelf 387")
    expect(region.get_by_role("status")).to_have_text("1 reply")
    expect(rows(page).locator("mark")).to_have_text(["387", "shelf", "387"])
    shoot(page, "repertoire-many")
    check_fits(page)
    page.get_by_label("Search replies").fill("box 39")  # only example questions have these words
    expect(region.get_by_role("status")).to_have_text("14 replies")
    expect(rows(page).first).to_contain_text("found in an example question")
    page.get_by_label("Search replies").fill("shelf")
    expect(region.get_by_role("status")).to_have_text("400 replies")
    page.get_by_label("Sort").select_option("Added last")
    expect(rows(page).first).to_contain_text("Reply 399")
    expect(rows(page)).to_have_count(50)


@pytest.mark.long
def test_what_is_typed_later_wins_although_the_first_answer_comes_last(visits: Visits, start: Start) -> None:
    page = open_page(visits, start(CHAT))
    expect(rows(page)).to_have_count(5)
    held = list[Route]()
    page.route("**/replies?*q=loan*", lambda route: held.append(route))
    with page.expect_request("**/replies?*q=loan*"):
        page.get_by_label("Search replies").fill("loan")
    with page.expect_event("requestfailed", lambda request: "q=loan" in request.url):  # it is aborted
        page.get_by_label("Search replies").fill("printer")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("The printer is by the stairs.")
    expect(page.get_by_role("alert")).to_have_count(0)
    assert len(held) == 1


@pytest.mark.long
def test_replies_questions_and_feedback_say_when_they_came(visits: Visits, start: Start) -> None:
    service = start(CHAT)
    service.wait_learned("chat", 1)
    client = service.client("chat")
    prediction = client.predict(["When do you open?"])
    client.feedback([{"prediction_id": prediction["prediction_ids"][0], "reward": 1}])
    details = service.http.get("/v1/models/chat/replies/hours").json()
    page = open_page(visits, service)
    hours = rows(page).filter(has_text="We open at nine.")
    expect(hours).to_contain_text(re.compile("added (just now|\\d+ minutes? ago)"))
    expect(hours.locator("time")).to_have_attribute("datetime", details["created_at"])
    expect(hours.locator("time")).to_have_attribute("title", re.compile("day, .* 20\\d\\d at .*:"))  # a day, a time
    hours.get_by_role("link").click()
    article = page.get_by_role("article")
    instants = [details["created_at"], *(each["created_at"] for each in [*details["examples"], *details["taught"]])]
    expect(article.locator("time")).to_have_count(len(instants))
    found = article.locator("time").evaluate_all("times => times.map((each) => each.getAttribute('datetime'))")
    assert found == instants and len(details["taught"]) == 1
    check_accessible(page)


@pytest.mark.long
def test_an_import_says_what_is_wrong_with_a_line_in_the_language_of_the_page(visits: Visits, start: Start) -> None:
    page = open_page(visits, start(CHAT), "?part=file", width=390, locale="de-DE")
    file = '{"text": "Stifte gibt es vorn."}\n\n{"text": 3}\nStifte gibt es vorn.\n'
    page.get_by_label("Datei auswählen").set_input_files(
        {"name": "antworten.jsonl", "mimeType": "", "buffer": file.encode()}
    )
    lines = page.get_by_role("region", name="Änderungen pro Zeile").get_by_role("row")
    expect(lines.nth(1)).to_contain_text("Zeile 3: „text“ muss Text in Anführungszeichen sein.")
    expect(lines.nth(2)).to_contain_text("Zeile 4 ist kein JSON.")
    shoot(page, "repertoire-import-de")
    check_fits(page)
    check_accessible(page)
