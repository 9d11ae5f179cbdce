"""The learning page in a real Chromium: curve, alarms and refused feedback after a drift, and the operator controls."""

import random
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from online.client import Client
from tests.api.rest.test_health import SLOW_DECLINE, draw_points, judge, label_of, mislead, rate
from tests.api.rest.test_versions import VEC
from tests.conftest import Start
from tests.e2e.browsing import SIZES, Visits, check_accessible, shoot
from tests.e2e.test_access import ADMIN_KEY, sign_in
from tests.support import Service

RIVER = '[[models]]\nname = "rv"\nkind = "river"\n'
NUMBERS = """
[[models]]
name = "num"
kind = "regressor"
options = { input = "vector", size = 2, scale = 4.0, target_scale = 64.0 }
"""
TURNS = 320


def send_drifting_feedback(client: Client, turns: int) -> int:
    """Predict and give the right label every turn; half way the labels are swapped. Return the last offset."""
    draw, offset = random.Random(7), 0
    for turn in range(turns):
        size = draw.uniform(-1, 1)
        min_offset = offset if turn % 8 == 0 else 0  # wait for the learner now and then
        answer = client.predict([{"size": size}], min_offset=min_offset, timeout_ms=60_000)
        large = (size > 0) == (turn < turns / 2)
        receipt = client.feedback(
            [{"prediction_id": answer["prediction_ids"][0], "label": "large" if large else "small"}]
        )
        offset = receipt[0]["offset"]
    return offset


def curve_of(service: Service, model: str) -> dict[str, Any]:
    curve: dict[str, Any] = service.http.get(f"/v1/models/{model}/curve").json()
    return curve


def fact(page: Page, name: str) -> Any:
    return page.get_by_role("region", name="Current status").locator("div").filter(has_text=name)


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_a_drift_is_shown_on_the_curve_as_it_happens(visits: Visits, start: Start, width: int, scheme: str) -> None:
    service = start(RIVER)
    page = visits.open(f"{service.url}/learning", width=width, scheme=scheme)
    expect(page.get_by_text("No answer has been judged yet.")).to_be_visible()
    client = service.client("rv")
    refused = client.feedback([{"input": {"size": 1e200}, "label": "large"}])[0]
    service.wait_learned("rv", max(refused["offset"], send_drifting_feedback(client, TURNS)))

    alarms = page.get_by_role("region", name="Alarms")
    expect(alarms).to_contain_text("Errors became more frequent")  # updated by events, without a reload
    expect(page.get_by_text("One event could not be learned.")).to_be_visible()
    expect(page.get_by_role("region", name="Table of refused feedback")).to_contain_text("overflow for good")
    curve = curve_of(service, "rv")
    expect(fact(page, "Feedback per minute")).to_contain_text(f"{curve['feedback']} in total")
    served = curve["tallies"]["served"]
    lifetime = page.get_by_role("region", name="Answers now").locator("div").filter(has_text="All judged answers")
    expect(lifetime.last).to_contain_text(f"{round(100 * served['total'] / served['judged'])}")

    page.get_by_text("As a table").click()
    table = page.get_by_role("region", name="Accuracy, as a table")
    expect(table.get_by_role("columnheader")).to_have_text(
        ["judged answers", "model", "guess: same as last time", "guess: the most usual", "what happened"]
    )
    expect(table.get_by_role("row")).to_have_count(1 + len(curve["points"]))
    expect(table).to_contain_text("alarm: errors became more frequent")
    expect(table).to_contain_text(re.compile(r"versions? \d+ (to \d+ )?went live"))
    expect(page.locator("canvas")).to_be_visible()
    expect(page.get_by_role("figure").get_by_text("version went live")).to_be_visible()
    newest = curve["points"][-1]["until"]
    trend = page.get_by_role("figure").filter(has_text="judged answers, about 50 a point")
    expect(trend).to_contain_text(f"All {served['judged']} judged answers")
    expect(trend).to_contain_text("from answer 1 ·")
    assert newest > served["judged"]  # the refused example has no answer that could be judged
    expect(trend).to_contain_text(f"to answer {served['judged']} ·")
    guess = page.get_by_role("region", name="Answers now").locator("div").filter(has_text="For comparison")
    expect(guess.last).to_contain_text("on the same 100")
    check_accessible(page)
    page.get_by_text("As a table").click()
    page.get_by_role("heading", name="Learning", level=1).scroll_into_view_if_needed()
    shoot(page, f"learning-{scheme}")
    page.get_by_role("heading", name="Refused feedback").scroll_into_view_if_needed()
    shoot(page, f"learning-below-{scheme}")


@pytest.mark.long
def test_the_error_curve_of_a_regressor_is_shown(visits: Visits, start: Start) -> None:
    service = start(NUMBERS)
    client, offset = service.client("num"), 0
    for n in range(40):
        answer = client.predict([[n % 4, n % 3]], min_offset=offset, timeout_ms=20_000)
        receipt = client.feedback([{"prediction_id": answer["prediction_ids"][0], "label": str(10 + 2 * (n % 4))}])
        offset = receipt[0]["offset"]
    page = visits.open(f"{service.url}/learning")
    expect(page.get_by_role("heading", name="Mean error", exact=True)).to_be_visible()
    expect(page.get_by_role("figure").get_by_text("guess: the mean so far")).to_be_visible()
    check_accessible(page)
    shoot(page, "learning-numbers")


def confirm(page: Page, action: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=action, exact=True).click()


def start_well(start: Start) -> tuple[Service, Client]:
    """Start a service whose answers have been judged 300 times, and are good."""
    service = start(VEC, retain=100)
    client = service.client("vec")
    teach_first(service, client)
    for seed in range(3):
        service.wait_learned("vec", rate(client, 100, seed))
    return service, client


def teach_first(service: Service, client: Client) -> None:
    """Teach fifty labels, so that the first answers are right."""
    first = client.feedback([{"input": point, "label": label_of(point)} for point in draw_points(50, seed=4)])[-1]
    service.wait_learned("vec", first["offset"])


@pytest.mark.long
def test_a_collapse_is_said_and_ends_with_a_confirmed_roll_back(visits: Visits, start: Start) -> None:
    service, client = start_well(start)
    page = visits.open(f"{service.url}/learning", width=1440)
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict).to_contain_text("Good: ")
    service.wait_learned("vec", mislead(client, 1_000))
    service.wait_learned("vec", rate(client, 100, seed=9))

    expect(verdict).to_contain_text(
        re.compile(
            r"Needs attention: since \d\d:\d\d \(judged answer \d+\), only \d+ of the last 100 judged answers were right; before, 9\d"
        )
    )
    roll_back = verdict.get_by_role("button", name=re.compile("^Roll back to version "))
    older = roll_back.inner_text().rpartition(" ")[2]
    alarms = page.get_by_role("region", name="Alarms", exact=True)
    expect(alarms.get_by_role("button", name="What changed?").first).to_be_visible()
    check_counts(service, alarms)
    expect(page.get_by_role("button", name=re.compile("^Roll back to version "))).to_have_count(1)  # one recommendation
    verdict.get_by_role("button", name="What changed?").click()
    changed = page.get_by_role("region", name="Changed answers")
    expect(changed.get_by_role("columnheader").nth(1)).to_have_text(f"Version {older}")
    expect(changed.get_by_text("right before").first).to_be_visible()
    expect(page.get_by_label("From version")).to_have_value(older)
    newer = changed.get_by_role("columnheader").nth(2).inner_text().rpartition(" ")[2]
    expect(page.get_by_label("to version")).to_have_value(newer)  # what was live then: another may be by now
    assert int(older) < int(newer) <= int(find_live(service))
    title = page.get_by_role("heading", name="What changed between two versions")
    page.wait_for_function("title => Math.abs(title.getBoundingClientRect().top - 64) < 60", arg=title.element_handle())
    for width, is_dark, is_forced in ((1440, False, False), (768, True, False), (390, False, True), (320, True, False)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="dark" if is_dark else "light", forced_colors="active" if is_forced else "none")
        check_accessible(page)
        shoot(page, f"learning-collapse-{width}")
    page.set_viewport_size({"width": 1440, "height": 900})

    roll_back.click()
    expect(page.get_by_role("dialog")).to_contain_text("answers everybody at once")
    expect(page.get_by_role("checkbox", name="Also stop learning")).to_be_checked()
    check_accessible(page)
    shoot(page, "learning-roll-back")
    before = re.findall(r"before, (\d+\s%)", verdict.inner_text())[0]
    expect(page.get_by_role("dialog")).to_contain_text(
        re.compile(rf"Made \d\d:\d\d\. Before the fall, {before} of \d+ judged answers were right\.")
    )
    confirm(page, "Cancel")
    expect(verdict).to_contain_text("Needs attention")
    expect(roll_back).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(roll_back).to_be_focused()
    menu = page.get_by_role("button", name=re.compile("^Actions for version ")).nth(1)
    for is_by_keyboard in (False, True):
        menu.press("Enter") if is_by_keyboard else menu.click()
        page.get_by_role("menuitem", name=re.compile("^Roll back to version ")).press("Enter")
        expect(page.get_by_role("dialog")).to_contain_text(
            re.compile(r"Of the last \d+ answers judged before that, \d+\s% were right\.")
        )
        page.get_by_role("dialog").get_by_role("button", name="Cancel").press("Escape")
        expect(menu).to_be_focused()
    live = find_live(service)
    roll_back.click()
    confirm(page, "Roll back")
    expect(page.get_by_text(f"Version {older} answers now. Learning is stopped.")).to_be_visible()
    expect(verdict).to_contain_text(f"Rolled back: version {older} answers. Learning is stopped.")
    check_rolled_back(page, service, older, live)
    check_accessible(page)
    shoot(page, "learning-rolled-back")
    expect(verdict).to_be_focused()
    verdict.get_by_role("button", name="Resume learning").click()
    confirm(page, "Resume learning")
    expect(verdict).to_contain_text(f"Rolled back: version {older} answers until the next rating is learned.")
    expect(verdict.get_by_role("button", name="Stop learning")).to_be_visible()
    newest = service.http.get("/v1/models/vec/health").json()["newest_version"]
    expect(page.get_by_role("button", name=f"Roll back to version {newest}")).to_have_count(0)
    page.get_by_role("button", name=f"Actions for version {newest}", exact=True).click()
    expect(page.get_by_role("menuitem", name=f"Go forward to version {newest}")).to_be_visible()
    check_accessible(page)


def find_live(service: Service) -> str:
    return str(service.http.get("/v1/models/vec/health").json()["version"])


def check_counts(service: Service, alarms: Any) -> None:
    """The rates of an alarm say on how many answers they rest."""
    (change,) = service.http.get("/v1/models/vec/drift").json()["changes"]
    alarm = next(each for each in change["alarms"] if each["what"] == "loss")
    wrong = round(alarm["after"] * alarm["window"])
    expect(alarms).to_contain_text(re.compile(rf"wrong answers: .* → .* \({wrong} of {alarm['window']}\)"))


def check_rolled_back(page: Page, service: Service, older: str, live: str) -> None:
    """After a roll back that stopped learning, each figure says of which version it is, and what is not learned."""
    now = page.get_by_role("region", name="Answers now")
    expect(now.get_by_role("heading")).to_have_text(f"Last 100 judged answers of version {older} and older")
    status = page.get_by_role("region", name="Current status")
    expect(status).to_contain_text(f"rolled back from {live}")
    expect(status).to_contain_text(f"stopped: rolled back to version {older}")
    expect(status).not_to_contain_text("up to date")
    expect(status).to_contain_text(re.compile(r"learning is stopped; [\d,]+ judged answers are not learned"))
    numbers = re.findall(r"(?:judged answer |stopped; )([\d,]+)", status.inner_text())
    learned, missing = (number.replace(",", "") for number in numbers)
    assert int(learned) + int(missing) == service.http.get("/v1/models/vec/curve").json()["judged"]


@pytest.mark.long
def test_a_model_that_answers_well_since_a_roll_back_recovers(visits: Visits, start: Start) -> None:
    service, client = start_well(start)
    service.wait_learned("vec", mislead(client, 1_000))
    service.wait_learned("vec", rate(client, 100, seed=9))
    page = visits.open(f"{service.url}/learning", width=1440)
    verdict = page.get_by_role("region", name="Verdict")
    roll_back = verdict.get_by_role("button", name=re.compile("^Roll back to version "))
    older = roll_back.inner_text().rpartition(" ")[2]
    roll_back.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Roll back", exact=True).press("Enter")
    expect(verdict).to_contain_text(f"Rolled back: version {older} answers. Learning is stopped.")
    expect(verdict).to_be_focused()
    rate(client, 20, seed=20)
    page.reload()
    expect(verdict).to_contain_text(re.compile(r"Since the roll back: \d+ of 20 judged answers right\."))
    expect(verdict).not_to_contain_text("of the last 100")  # of versions that do not answer now
    check_accessible(page)

    repeat = [{"input": point, "label": label_of(point)} for point in draw_points(1_000, seed=5)]
    offset = client.feedback(repeat)[-1]["offset"]  # what was wrong is put right before learning is resumed
    resume = verdict.get_by_role("button", name="Resume learning")
    resume.press("Enter")
    page.keyboard.press("Escape")
    expect(resume).to_be_focused()
    resume.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Resume learning").press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(verdict).to_be_focused()
    service.wait_learned("vec", offset)
    expect(verdict).to_contain_text("Needs attention")  # 20 are too few

    service.wait_learned("vec", rate(client, 20, seed=21))
    expect(verdict).to_contain_text(
        re.compile(r"Recovering: \d+ of the 40 judged answers since the roll back were right\.")
    )
    expect(verdict).to_contain_text(
        re.compile(r"The last 100 judged answers still contain the fall since .*: \d+ of them were right; before, 9\d")
    )
    expect(verdict.get_by_role("button")).to_have_count(0)
    page.get_by_text("As a table").click()
    table = page.get_by_role("region", name="Accuracy, as a table")
    for mark in ("the fall begins", f"rolled back to version {older}"):
        expect(table).to_contain_text(mark)
    page.get_by_text("As a table").click()
    for width, scheme in ((1440, "light"), (390, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        check_accessible(page)
        shoot(page, f"learning-recovering-{width}")
    page.evaluate("localStorage.setItem('online.language', 'de')")
    page.reload()
    in_german = page.get_by_role("region", name="Urteil")
    expect(in_german).to_contain_text(
        re.compile(r"Erholt sich: \d+ der 40 beurteilten Antworten seit dem Zurücksetzen")
    )
    shoot(page, "learning-recovering-de")
    page.evaluate("localStorage.removeItem('online.language')")
    page.reload()

    service.wait_learned("vec", rate(client, 45, seed=22))
    expect(verdict).to_contain_text(
        re.compile(r"Recovering: \d+ of the 85 judged answers since the roll back were right\.")
    )
    expect(verdict).to_contain_text(
        re.compile(
            r"The last 100 judged answers still contain some from before the roll back: \d+\s% of the 100 were right"
        )
    )
    service.wait_learned("vec", rate(client, 35, seed=23))
    expect(verdict).to_contain_text(re.compile("Good: "))
    expect(verdict).not_to_contain_text("still contain")
    page.get_by_text("As a table").click()
    expect(table).to_contain_text(f"rolled back to version {older}")


def roll_back_and_stop(page: Page) -> None:
    """Accept what the verdict recommends; learning is then stopped."""
    verdict = page.get_by_role("region", name="Verdict")
    verdict.get_by_role("button", name=re.compile("^Roll back to version ")).click()
    confirm(page, "Roll back")
    expect(verdict).to_contain_text("Learning is stopped.")


@pytest.mark.long
def test_a_page_follows_the_ratings_also_while_learning_is_stopped_and_its_numbers_are_exact(
    visits: Visits, start: Start
) -> None:
    service, client = start_well(start)
    service.wait_learned("vec", mislead(client, 600))
    service.wait_learned("vec", rate(client, 100, seed=9))
    figures = service.http.get("/v1/models/vec/health").json()["reasons"][0]["figures"]
    asked = {"offset": [figures["since"]]}
    begin = service.http.get("/v1/models/vec/curve/judged", params=asked).json()["judged"][0] + 1
    page = visits.open(f"{service.url}/learning", width=1440)
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict).to_contain_text(f"(judged answer {begin})")
    trend = page.get_by_role("figure").filter(has_text="judged answers to requests, about 50 a point")
    expect(trend).to_contain_text(
        "Newest 400 judged answers"
    )  # the labels in between came with an input, and are judged
    expect(trend).to_contain_text("to answer 1,000 ·")
    page.get_by_text("As a table").click()
    table = page.get_by_role("region", name="Accuracy, as a table")
    expect(table).to_contain_text(re.compile(rf"the fall begins \({begin}\)|{begin} · .*the fall begins"))
    page.get_by_text("As a table").click()
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        shoot(page, f"learning-exact-numbers-{width}")
    page.set_viewport_size({"width": 1440, "height": 900})

    roll_back_and_stop(page)
    expect(fact(page, "Feedback per minute")).to_contain_text("1,050 in total")
    expect(verdict).not_to_contain_text("Since the roll back")
    rate(client, 25, seed=20)
    expect(verdict).to_contain_text(re.compile(r"Since the roll back: \d+ of 25 judged answers right\."))
    expect(fact(page, "Feedback per minute")).to_contain_text("1,075 in total")
    rate(client, 5, seed=21)
    expect(verdict).to_contain_text(re.compile(r"Since the roll back: \d+ of 30 judged answers right\."))
    check_accessible(page)
    shoot(page, "learning-stopped-live")


GUARDED = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
guard = true
"""


def send_misleading_feedback(client: Client, turns: int) -> None:
    """Predict and give the right label until half way, and the wrong one from there."""
    draw, offset = random.Random(7), 0
    for turn in range(turns):
        point = [draw.uniform(-1, 1), draw.uniform(-1, 1)]
        min_offset = offset if turn < turns / 2 and turn % 8 == 0 else 0
        answer = client.predict([point], min_offset=min_offset, timeout_ms=60_000)
        up = (point[0] > point[1]) == (turn < turns / 2)
        receipt = client.feedback([{"prediction_id": answer["prediction_ids"][0], "label": "up" if up else "down"}])
        offset = receipt[0]["offset"]


@pytest.mark.long
def test_an_operator_freezes_labels_and_ends_a_quarantine(visits: Visits, start: Start) -> None:
    service = start(GUARDED, admin_key=ADMIN_KEY)
    service.http.headers["X-API-Key"] = ADMIN_KEY
    client = Client(service.url, "vec", key=ADMIN_KEY)
    first = client.feedback([{"input": [1, 0], "label": "up"}, {"input": [0, 1], "label": "down"}])[-1]
    service.wait_learned("vec", first["offset"])
    page = visits.open(f"{service.url}/learning", width=360, scheme="light")
    sign_in(page, ADMIN_KEY)
    operate = page.get_by_role("region", name="Operator controls")
    operate.get_by_label("Stop learning. Why? (optional)").fill("an odd day")
    operate.get_by_role("button", name="Stop").press("Enter")
    confirm(page, "Stop")
    expect(operate).to_contain_text("an odd day")
    expect(page.get_by_role("region", name="Verdict")).to_contain_text("learning is stopped (an odd day)")
    shoot(page, "operate-frozen")
    operate.get_by_role("button", name="Resume learning").click()
    expect(operate.get_by_role("button", name="Stop")).to_be_visible()

    live = service.http.get("/v1/models/vec").json()["model_version_status"][0]["version"]
    page.get_by_role("button", name=f"Actions for version {live}", exact=True).click()
    page.get_by_role("menuitem", name="Label…").click()
    page.get_by_label(f"Label for version {live}").fill("stable")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Remove the label stable")).to_be_visible()

    send_misleading_feedback(client, 400)
    expect(operate).to_contain_text("The guard rolled back the live version", timeout=60_000)
    expect(operate).to_contain_text("answers were wrong")
    check_accessible(page)
    operate.scroll_into_view_if_needed()
    shoot(page, "operate-quarantine")
    page.evaluate("localStorage.setItem('online.language', 'de')")
    page.reload()
    guard = page.get_by_role("group", name="Der Wächter hat die Live-Version zurückgesetzt")
    expect(guard).to_contain_text(
        re.compile("Antworten waren falsch; bis Ereignis|waren mehr Antworten falsch als davor")
    )
    check_accessible(page)
    page.evaluate("localStorage.removeItem('online.language')")
    page.reload()
    verdict = page.get_by_role("region", name="Verdict")  # first, or below what is worse: then it begins with a capital
    expect(verdict).to_contain_text("the guard rolled the model back", ignore_case=True)
    operate.get_by_role("button", name="Drop this feedback").click()
    confirm(page, "Drop this feedback")
    expect(operate.get_by_role("region", name="Past quarantines")).to_contain_text("dropped")
    expect(operate.get_by_role("button", name="Stop")).to_be_visible()
    page.get_by_role("button", name="Remove the label stable").click()
    expect(page.get_by_role("button", name="Remove the label stable")).to_have_count(0)


@pytest.mark.long
def test_versions_refused_by_the_gate_are_listed_with_the_reason(visits: Visits, start: Start) -> None:
    service = start(GUARDED + 'canaries = [{ input = [1.0, 0.0], answer = "up" }]\n')
    client = service.client("vec")
    first = client.feedback([{"input": [1, 0], "label": "up"}, {"input": [0, 1], "label": "down"}])[-1]
    service.wait_learned("vec", first["offset"])
    client.feedback([{"input": [1, 0], "label": "down"}] * 20)
    page = visits.open(f"{service.url}/learning", width=360)
    refused = page.get_by_role("region", name="Rejected snapshots", exact=True)
    expect(refused).to_contain_text("the golden question '[1.0, 0.0]' would no longer get 'up'")
    check_accessible(page)
    refused.scroll_into_view_if_needed()
    shoot(page, "refused-versions")


@pytest.mark.long
def test_an_accuracy_that_falls_is_not_called_good_without_a_word(visits: Visits, start: Start) -> None:
    service = start(VEC)
    client = service.client("vec")
    draw = random.Random(3)
    teach_first(service, client)
    for share in (0.95, 0.95, 0.95, 0.95, 0.84):  # of the answers that are called right
        answer = client.predict(draw_points(100, seed=round(1_000 * draw.random())))
        pairs = zip(answer["prediction_ids"], answer["predictions"], strict=True)
        order = [index < 100 * share for index in range(100)]
        draw.shuffle(order)
        client.feedback(
            [{"prediction_id": id, "reward": int(right)} for (id, _), right in zip(pairs, order, strict=True)]
        )
    page = visits.open(f"{service.url}/learning", width=390)
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict).to_contain_text(
        re.compile(r"Good, but falling: 84\s% of the last 100 judged answers were right, 95\s% of the \d00 before\.")
    )
    check_accessible(page)
    verdict.get_by_role("button", name="What changed?").click()
    expect(page.get_by_role("heading", name="What changed between two versions")).to_be_focused()
    guess = page.get_by_role("region", name="Answers now").locator("div").filter(has_text="For comparison")
    expect(guess.last).to_contain_text(re.compile(r"on the \d+ that judge it"))


@pytest.mark.long
@pytest.mark.parametrize(("width", "language"), [(1440, "en"), (390, "de")])
def test_a_slow_decline_is_said_with_one_begin_and_one_figure(
    visits: Visits, start: Start, width: int, language: str
) -> None:
    service = start(VEC, retain=100)
    first = service.client("vec").feedback([{"input": p, "label": label_of(p)} for p in draw_points(50, 4)])[-1]
    service.wait_learned("vec", first["offset"])
    judge(service, SLOW_DECLINE)
    page = visits.open(f"{service.url}/learning", width=width)
    page.evaluate("language => localStorage.setItem('online.language', language)", language)
    page.reload()
    is_english = language == "en"
    verdict = page.get_by_role("region", name="Verdict" if is_english else "Urteil")
    said = "only 69 of the last 100 judged" if is_english else "nur 69 der letzten 100 beurteilten"
    expect(verdict).to_contain_text(said)
    answer = "judged answer" if is_english else "beurteilte Antwort"
    begins = re.findall(rf"\d\d:\d\d \({answer} [\d,.]+\)", verdict.inner_text())
    assert len(begins) == 1, begins
    alarms = page.get_by_role("region", name="Alarms" if is_english else "Alarme", exact=True)
    expect(alarms).to_contain_text(f"since about {begins[0]}" if is_english else f"seit etwa {begins[0]}")
    now = page.get_by_role("region", name="Answers now" if is_english else "Antworten jetzt")
    expect(now).to_contain_text("Last 100 judged answers" if is_english else "Letzte 100 beurteilte Antworten")
    expect(now).to_contain_text(re.compile(r"69\s%"))
    fall = service.http.get("/v1/models/vec/health").json()["reasons"][0]["figures"]
    offered = verdict.get_by_role("button", name=re.compile(r"(to|auf) version \d+", re.IGNORECASE))
    expect(offered).to_have_text(re.compile(rf"\b{fall['roll_back_to']}\b"))
    (version,) = [each for each in service.versions("vec") if each["version"] == fall["roll_back_to"]]
    assert version["learned_until"] <= fall["since"]
    check_accessible(page)
    shoot(page, f"learning-slow-decline-{language}")


@pytest.mark.long
def test_operators_see_the_devices_and_what_lies_there(visits: Visits, start: Start) -> None:
    service = start(RIVER)
    page = visits.open(f"{service.url}/learning")
    devices = page.get_by_role("region", name="Devices")
    expect(devices).to_contain_text("No process of this service uses a GPU")
    expect(devices).to_contain_text(
        re.compile(r"cpu.*\d+ cores?.*in use.*learns rv.*answers with rv", re.DOTALL), timeout=20_000
    )
    check_accessible(page)
