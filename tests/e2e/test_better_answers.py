"""The text encoder in the browser: switched on it answers questions in other words without the service, and leaves no trace."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.conftest import Start
from tests.e2e.browsing import Visits, check_accessible, choose, shoot
from tests.e2e.test_access import button, create_key, serve, sign_in
from tests.e2e.test_offline import CHAT, LOST
from tests.e2e.test_offline_learning import ask, expect_banner, expect_thumb_at_once, open_chat
from tests.support import Service, until

QUESTION, REPLY = "How do I become a member?", "Bring an identity card to join."
READY = "Ready. Without a connection"
FILES = ["chat/encoder", "encoder/model.onnx", "encoder/vocab.txt"]
KEPT = """
async () => {
  const names = (await caches.keys()).filter((name) => name.startsWith('online-encoder-'));
  const keys = await Promise.all(names.map(async (name) => (await caches.open(name)).keys()));
  return keys.flat().map(({ url }) => url.split('/').slice(-2).join('/')).sort();
}
"""


def read_files(page: Page) -> list[str]:
    """The ends of the addresses of the files that this browser keeps for the encoder."""
    files: list[str] = page.evaluate(KEPT)
    return files


def open_option(page: Page, settings: str = "Settings", item: str = "Answers without a connection") -> Locator:
    choose(page, settings, item)
    dialog = page.get_by_role("dialog", name=item)
    expect(dialog).to_contain_text(re.compile(r"\d\d\sMB"))
    return dialog


def open_with_encoder(visits: Visits, service: Service, **options: Any) -> Page:
    page = open_chat(visits, service, **options)
    dialog = open_option(page)
    dialog.get_by_role("switch").click()
    expect(dialog).to_contain_text(READY)
    button(dialog, "Close").click()
    return page


@pytest.mark.long
def test_a_question_in_other_words_is_answered_without_the_service_also_in_the_next_visit(
    visits: Visits, start: Start
) -> None:
    page = open_chat(visits, start(CHAT))
    page.context.set_offline(True)
    expect_banner(page, "Its answers are simpler than those of the server.")
    expect(ask(page, QUESTION)).not_to_contain_text(REPLY)  # words alone do not tell it
    page.context.set_offline(False)
    expect_banner(page, "")

    dialog = open_option(page)
    expect(dialog).to_contain_text(re.compile(r"Downloads 27\sMB once\."))
    assert read_files(page) == []
    check_accessible(page)
    dialog.get_by_role("switch", name="Read questions by their meaning").click()
    expect(dialog).to_contain_text(READY)
    expect(dialog.get_by_role("switch")).to_be_checked()
    check_accessible(page)
    shoot(page, "better-answers-ready-light")
    kept = read_files(page)
    assert [each for each in kept if not each.startswith("assets/")] == FILES
    assert len(kept) == len(FILES) + 2  # ONNX Runtime, and the script of the worker
    button(dialog, "Close").click()

    page.context.set_offline(True)
    expect_banner(page, f"{LOST} Version 1 answers on this device.")
    expect(page.locator(".banner")).not_to_contain_text("simpler")
    reply = ask(page, QUESTION)
    expect(reply).to_contain_text(REPLY)
    expect(reply).to_contain_text("Answered on this device.")
    page.reload()
    expect_banner(page, "Version 1 answers on this device.")
    expect(ask(page, QUESTION)).to_contain_text(REPLY)


@pytest.mark.long
def test_a_thumb_changes_the_next_answer_of_the_encoder_at_once(visits: Visits, start: Start) -> None:
    page = open_with_encoder(visits, start(CHAT))
    page.context.set_offline(True)
    expect_banner(page, LOST)
    expect(ask(page, QUESTION)).to_contain_text(REPLY)
    expect_thumb_at_once(page)
    page.get_by_role("button", name="Wrong reply").click()
    expect(ask(page, QUESTION)).not_to_contain_text(REPLY)


@pytest.mark.long
def test_a_download_can_be_cancelled_and_goes_on_after_a_problem(visits: Visits, start: Start) -> None:
    page = open_chat(visits, start(CHAT), width=390, height=844, scheme="dark", locale="de-DE")
    waiting: list[Route] = []
    page.route("**/encoder/model.onnx", lambda route: waiting.append(route), times=1)
    dialog = open_option(page, "Einstellungen", "Antworten ohne Verbindung")
    shoot(page, "better-answers-off-narrow-dark")
    switch = dialog.get_by_role("switch", name="Fragen auf diesem Gerät nach ihrer Bedeutung lesen")
    switch.click()
    expect(dialog).to_contain_text(re.compile(r"Wird heruntergeladen: 0\sB von 27\sMB"))
    check_accessible(page)
    shoot(page, "better-answers-loading-narrow-dark")
    button(dialog, "Abbrechen").click()
    status = dialog.get_by_role("status")
    expect(status).to_be_focused()  # the button is gone
    expect(switch).not_to_be_checked()
    expect(switch).to_be_enabled()
    assert read_files(page) == []
    assert len(waiting) == 1
    waiting[0].abort()

    page.route("**/encoder/vocab.txt", lambda route: route.fulfill(body="not the tokens" * 20_000), times=1)
    switch.click()
    expect(dialog).to_contain_text("Eine Datei kam beschädigt an und wurde gelöscht.")
    check_accessible(page)
    shoot(page, "better-answers-problem-narrow-dark")
    page.route("**/encoder/vocab.txt", lambda route: waiting.append(route), times=1)
    button(dialog, "Erneut versuchen").click()
    expect(status).to_be_focused()
    until(lambda: page.evaluate("true") and len(waiting) == 2, what="the request for the tokens")
    page.context.set_offline(True)
    waiting[1].abort()
    expect(dialog).to_contain_text("Die Verbindung ist abgebrochen.")
    page.context.set_offline(False)
    expect(dialog).to_contain_text("Bereit.")  # it went on by itself
    shoot(page, "better-answers-ready-narrow-dark")

    switch.click()
    expect(switch).not_to_be_checked()
    expect(switch).to_be_focused()
    until(lambda: read_files(page) == [], what="the end of the files")


@pytest.mark.long
def test_two_tabs_download_once_and_end_together(visits: Visits, start: Start) -> None:
    service = start(CHAT)
    page = open_chat(visits, service)
    waiting: list[Route] = []
    page.context.route("**/encoder/model.onnx", lambda route: waiting.append(route))
    with page.expect_popup() as popup:
        page.evaluate("() => void window.open(location.href)")
    other = popup.value
    dialogs = [open_option(each) for each in (page, other)]
    dialogs[0].get_by_role("switch").click()
    for dialog in dialogs:
        expect(dialog).to_contain_text(re.compile(r"Downloading: 0\sB of 27\sMB"))
    dialogs[1].get_by_role("switch").click()
    for dialog in dialogs:
        expect(dialog.get_by_role("switch")).not_to_be_checked()
    assert len(waiting) == 1
    waiting[0].abort()
    until(
        lambda: page.evaluate("async () => (await caches.keys()).every((name) => !name.startsWith('online-encoder-'))"),
        what="the end of the files",
    )


@pytest.mark.long
def test_signing_out_deletes_the_encoder(visits: Visits, tmp_path: Path) -> None:
    with serve(tmp_path, public_teaching="review") as service:
        page = visits.open(service.url)
        sign_in(page, create_key(service, "predict,feedback"))
        expect(page.get_by_role("button", name="Signed in as")).to_be_visible()
        page.get_by_role("button", name="Settings").click()
        page.get_by_role("menuitem", name="Answers without a connection").click()
        dialog = page.get_by_role("dialog", name="Answers without a connection")
        dialog.get_by_role("switch").click()
        expect(dialog).to_contain_text(READY)
        button(dialog, "Close").click()
        assert read_files(page) != []
        page.get_by_role("button", name="Signed in as").click()
        with page.expect_navigation():
            button(page.get_by_role("dialog", name="Signed in"), "Sign out").click()
        expect(button(page.get_by_role("banner"), "Sign in")).to_be_visible()
        assert read_files(page) == []
