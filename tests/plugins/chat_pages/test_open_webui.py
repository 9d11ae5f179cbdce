"""Ratings in Open WebUI 0.12.4, and in 0.10, whose events have no rating: learned once, retracted when they are deleted."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.conftest import Start, config
from tests.plugins.chat_pages.open_webui import KEY, OpenWebui, event
from tests.support import Service, erase, until

OPEN = "When do you open?"
NONSENSE = "qwertz zxcvb 12345 asdfgh"
LONG_INTERVAL_S = 3_600.0
CHAT = '\n[[models]]\nname = "chat"\nkind = "ranker"\n'


@dataclass
class Scene:
    """A service and the Open WebUI it is configured with."""

    service: Service
    open_webui: OpenWebui

    def ask(self, question: str = OPEN, **headers: str) -> str:
        """Return the id of the message that shows the reply in Open WebUI."""
        message_id = str(uuid.uuid4())
        body = {"model": "chat", "messages": [{"role": "user", "content": question}]}
        headers = {"X-Message-Id": message_id, "X-Task": "", **headers}
        assert self.service.http.post("/v1/chat/completions", json=body, headers=headers).status_code == 200
        return message_id

    def hook(self, body: dict[str, Any]) -> str:
        response = self.service.http.post("/integrations/open-webui", json=body)
        assert response.status_code == 202, response.text
        return str(response.json()["status"])

    def head(self) -> int:
        return int(self.service.http.get("/v1/models/chat").json()["head"])

    def feedback_states(self, feedback: str) -> list[str]:
        """For each event recorded for one feedback of Open WebUI: "active" or "retracted"."""
        states: list[str] = []
        while True:
            response = self.service.http.get(f"/v1/models/chat/feedback/open-webui-{feedback}.{len(states) + 1}")
            if response.status_code == 404:
                return states
            states.append("retracted" if response.json()["status"] == "retracted" else "active")

    def learned_state(self) -> str:
        """The hash of the state that has learned everything so far."""
        self.service.wait_learned("chat", self.head())
        return str(self.service.versions("chat")[0]["state_sha256"])


@pytest.fixture(scope="module")
def shared_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    open_webui, folder = OpenWebui(), tmp_path_factory.mktemp("open-webui")
    settings: dict[str, str | int | float] = {
        "open_webui_url": open_webui.url,
        "open_webui_key": KEY,
        "open_webui_every_s": LONG_INTERVAL_S,
    }
    service = Service(folder / "state", config(folder, CHAT, **settings))
    yield Scene(service, open_webui)
    service.stop()
    open_webui.stop()


@pytest.fixture
def scene(shared_scene: Scene) -> Iterator[Scene]:
    """A scene without any rating. The ratings of the test are deleted afterwards."""
    shared_scene.service.wait_learned("chat", 15)
    yield shared_scene
    rated = list(shared_scene.open_webui.ratings)
    shared_scene.open_webui.ratings.clear()
    for feedback in rated:
        shared_scene.hook(event("deleted", feedback))
    shared_scene.learned_state()


def test_a_rating_is_learned_and_retracted_when_it_is_deleted(scene: Scene) -> None:
    before, message = scene.learned_state(), scene.ask()
    feedback = scene.open_webui.rate(message, 1)
    assert scene.hook(event("created", feedback, 1)) == "accepted"
    assert scene.feedback_states(feedback) == ["active"] and scene.learned_state() != before
    del scene.open_webui.ratings[feedback]
    assert scene.hook(event("deleted", feedback)) == "retracted"
    assert scene.feedback_states(feedback) == ["retracted"] and scene.learned_state() == before


@pytest.mark.parametrize("rating", [1, "1", -1, "-1"])
def test_a_rating_may_be_a_number_or_a_string(scene: Scene, rating: int | str) -> None:
    with_rating = scene.open_webui.rate(scene.ask(), rating)
    assert scene.hook(event("created", with_rating)) == "accepted"


def test_repeated_events_are_learned_once(scene: Scene) -> None:
    feedback = scene.open_webui.rate(scene.ask(), -1)
    before = scene.head()
    for body in [event("created", feedback, -1)] * 2 + [event("updated", feedback, -1)] * 2:
        assert scene.hook(body) == "accepted"
    assert scene.head() == before + 1 and scene.feedback_states(feedback) == ["active"]


def test_a_later_reason_for_the_same_rating_adds_no_feedback(scene: Scene) -> None:
    message = scene.ask()
    feedback = scene.open_webui.rate(message, -1, tags=None)
    scene.hook(event("created", feedback, -1))
    before = scene.head()
    scene.open_webui.rate(message, -1, feedback, reason="not_helpful", comment="Sundays?", details={"rating": 3})
    assert scene.hook(event("updated", feedback, -1)) == "accepted"
    assert scene.head() == before and scene.feedback_states(feedback) == ["active"]


def test_a_changed_rating_replaces_the_first(scene: Scene) -> None:
    message = scene.ask()
    feedback = scene.open_webui.rate(message, 1)
    scene.hook(event("created", feedback, 1))
    scene.open_webui.rate(message, -1, feedback)
    assert scene.hook(event("updated", feedback, -1)) == "accepted"
    assert scene.feedback_states(feedback) == ["retracted", "active"]


def test_events_in_any_order_end_in_the_state_of_open_webui(scene: Scene) -> None:
    before, message = scene.learned_state(), scene.ask()
    feedback = scene.open_webui.rate(message, 1)
    scene.open_webui.rate(message, -1, feedback)
    late = [event("updated", feedback, -1), event("created", feedback, 1), event("updated", feedback, -1)]
    assert [scene.hook(body) for body in late] == ["accepted"] * 3
    assert scene.feedback_states(feedback) == ["active"]
    del scene.open_webui.ratings[feedback]
    backwards = [event("deleted", feedback), event("updated", feedback, -1), event("created", feedback, 1)]
    assert [scene.hook(body) for body in backwards] == ["retracted"] * 3
    assert scene.feedback_states(feedback) == ["retracted"] and scene.learned_state() == before


def test_a_deletion_that_arrives_before_the_creation_leaves_nothing(scene: Scene) -> None:
    before, feedback = scene.head(), str(uuid.uuid4())
    assert scene.hook(event("deleted", feedback)) == "ignored"
    assert scene.hook(event("created", feedback, 1)) == "ignored"
    assert scene.head() == before


def test_the_rating_missing_in_events_of_0_10_is_fetched(scene: Scene) -> None:
    feedback = scene.open_webui.rate(scene.ask(), 1)
    assert scene.hook(event("created", feedback, None)) == "accepted"
    assert scene.hook(event("updated", feedback, None)) == "accepted"
    assert scene.feedback_states(feedback) == ["active"]


def test_a_rating_that_becomes_null_is_retracted(scene: Scene) -> None:
    before, message = scene.learned_state(), scene.ask()
    feedback = scene.open_webui.rate(message, 1)
    scene.hook(event("created", feedback, 1))
    scene.open_webui.rate(message, None, feedback)
    assert scene.hook(event("updated", feedback, None)) == "retracted"
    assert scene.feedback_states(feedback) == ["retracted"] and scene.learned_state() == before
    scene.open_webui.rate(message, 1, feedback)
    assert scene.hook(event("updated", feedback, 1)) == "accepted"
    assert scene.feedback_states(feedback) == ["retracted", "active"]


def test_a_forged_event_changes_nothing(scene: Scene) -> None:
    feedback = scene.open_webui.rate(scene.ask(), 1)
    scene.hook(event("created", feedback, 1))
    assert scene.hook(event("updated", feedback, -1)) == "accepted"
    assert scene.hook(event("deleted", feedback)) == "accepted"
    assert scene.feedback_states(feedback) == ["active"]


def test_a_rating_of_an_answer_of_another_model_is_ignored(scene: Scene) -> None:
    before = scene.head()
    feedback = scene.open_webui.rate(str(uuid.uuid4()), 1)
    assert scene.hook(event("created", feedback, 1)) == "ignored"
    assert scene.head() == before


def test_a_rating_of_an_abstention_is_ignored(scene: Scene) -> None:
    before = scene.head()
    feedback = scene.open_webui.rate(scene.ask(NONSENSE), -1)
    assert scene.hook(event("created", feedback, -1)) == "ignored"
    assert scene.head() == before
    until(lambda: "rating ignored" in scene.service.output, what="the line in the log")


def test_a_background_task_does_not_replace_the_answer_of_the_message(scene: Scene) -> None:
    message = scene.ask()
    body = {"model": "chat", "messages": [{"role": "user", "content": "### Task:\nGenerate a title."}]}
    for _ in range(2):
        scene.service.http.post("/v1/chat/completions", json=body, headers={"X-Message-Id": message})
    feedback = scene.open_webui.rate(message, 1)
    assert scene.hook(event("created", feedback, 1)) == "accepted"


def test_an_erased_user_stays_erased(scene: Scene) -> None:
    message = scene.ask()
    feedback = scene.open_webui.rate(message, 1, comment="my words")
    scene.open_webui.ratings[feedback]["user_id"] = "erasmus"
    scene.hook(event("created", feedback, 1))
    assert erase(scene.service.client("chat"), "erasmus")["feedback"] == 1
    scene.hook(event("updated", feedback, 1))
    scene.open_webui.rate(message, -1, feedback)
    scene.hook(event("updated", feedback, -1))
    assert scene.feedback_states(feedback) == ["retracted"]


def test_a_rating_retracted_in_the_service_stays_retracted_until_it_changes_in_open_webui(scene: Scene) -> None:
    message = scene.ask()
    feedback = scene.open_webui.rate(message, 1)
    scene.hook(event("created", feedback, 1))
    scene.service.client("chat").retract(f"open-webui-{feedback}.1")
    assert scene.hook(event("updated", feedback, 1)) == "retracted"
    assert scene.feedback_states(feedback) == ["retracted"]
    scene.open_webui.rate(message, 1, feedback)
    assert scene.hook(event("updated", feedback, 1)) == "accepted"
    assert scene.feedback_states(feedback) == ["retracted", "active"]


def test_other_events_are_ignored(scene: Scene) -> None:
    before = list(scene.open_webui.requested)
    for other in ({**event("created", "x"), "event": "chat.created"}, {"event": "system.startup.completed"}):
        assert scene.hook(other) == "ignored"
    assert scene.open_webui.requested == before


# polling


def wait_for_poll(scene: Scene) -> None:
    """Return once the service has polled Open WebUI."""
    count = len(scene.open_webui.requested)
    scene.hook(event("deleted_all", "all"))
    scene.hook(event("deleted_all", "all"))
    until(lambda: scene.open_webui.requested[count:].count("/feedbacks/all/ids") >= 1, what="a poll")
    scene.hook(event("created", scene.open_webui.rate("no message of ours", 1), 1))  # waits until the poll has ended


@pytest.mark.long
def test_ratings_without_an_event_are_fetched_at_the_start(start: Start) -> None:
    open_webui = OpenWebui()
    service = start(CHAT, open_webui_url=open_webui.url, open_webui_key=KEY, open_webui_every_s=LONG_INTERVAL_S)
    service.wait_learned("chat", 15)
    scene = Scene(service, open_webui)
    messages = [scene.ask() for _ in range(3)]
    service.stop()
    rated = [open_webui.rate(message, 1) for message in messages]
    for _ in range(70):  # more than two pages of ratings of other models
        open_webui.rate(str(uuid.uuid4()), 1)
    scene.service = start(CHAT, open_webui_url=open_webui.url, open_webui_key=KEY, open_webui_every_s=LONG_INTERVAL_S)
    until(lambda: [scene.feedback_states(feedback) for feedback in rated] == [["active"]] * 3, what="three ratings")
    open_webui.stop()


@pytest.mark.long
def test_ratings_are_polled_periodically(start: Start) -> None:
    open_webui = OpenWebui()
    service = start(CHAT, open_webui_url=open_webui.url, open_webui_key=KEY, open_webui_every_s=0.05)
    service.wait_learned("chat", 15)
    scene = Scene(service, open_webui)
    message = scene.ask()
    feedback = open_webui.rate(message, 1)
    until(lambda: scene.feedback_states(feedback) == ["active"], what="the rating")
    open_webui.ratings[feedback]["data"] = {"rating": -1}  # in the same second
    until(lambda: scene.feedback_states(feedback) == ["retracted", "active"], what="the other rating")
    del open_webui.ratings[feedback]
    until(lambda: scene.feedback_states(feedback) == ["retracted", "retracted"], what="the deletion")
    open_webui.stop()


def test_deleting_all_ratings_retracts_all(scene: Scene) -> None:
    before = scene.learned_state()
    rated = [scene.open_webui.rate(scene.ask(), 1) for _ in range(2)]
    for feedback in rated:
        scene.hook(event("created", feedback, 1))
    scene.open_webui.ratings.clear()
    assert scene.hook(event("deleted_all", "all")) == "waiting"
    until(lambda: all(scene.feedback_states(feedback) == ["retracted"] for feedback in rated), what="the retractions")
    assert scene.learned_state() == before


def test_unchanged_ratings_are_not_fetched_again(scene: Scene) -> None:
    for _ in range(40):
        scene.open_webui.rate(str(uuid.uuid4()), 1)
    wait_for_poll(scene)
    wait_for_poll(scene)
    count = len(scene.open_webui.requested)
    wait_for_poll(scene)
    requested = scene.open_webui.requested[count:]
    assert requested.count("/feedbacks/list") <= requested.count("/feedbacks/all/ids") + 1  # a poll may be under way


def test_an_open_webui_that_answers_with_errors_retracts_nothing(scene: Scene) -> None:
    message = scene.ask()
    feedback = scene.open_webui.rate(message, 1)
    scene.hook(event("created", feedback, 1))
    for status in (404, 500, 401):
        scene.open_webui.status = status
        assert scene.hook(event("deleted", feedback)) == "waiting"
        assert scene.hook(event("updated", feedback, None)) == "waiting"
        scene.hook(event("deleted_all", "all"))
    scene.open_webui.status = 200
    wait_for_poll(scene)
    assert scene.feedback_states(feedback) == ["active"]


@pytest.mark.long
def test_an_open_webui_that_is_down_retracts_nothing(start: Start) -> None:
    open_webui = OpenWebui()
    service = start(CHAT, open_webui_url=open_webui.url, open_webui_key=KEY, open_webui_every_s=LONG_INTERVAL_S)
    service.wait_learned("chat", 15)
    scene = Scene(service, open_webui)
    feedback = open_webui.rate(scene.ask(), 1)
    scene.hook(event("created", feedback, 1))
    open_webui.stop()
    assert scene.hook(event("deleted", feedback)) == "waiting"
    restarted = OpenWebui(open_webui.port)
    restarted.ratings = open_webui.ratings
    assert scene.hook(event("deleted", feedback)) == "accepted" and scene.feedback_states(feedback) == ["active"]
    restarted.stop()


@pytest.mark.long
def test_an_invalid_key_is_reported_in_the_log(start: Start) -> None:
    open_webui = OpenWebui()
    service = start(CHAT, open_webui_url=open_webui.url, open_webui_key="sk-wrong", open_webui_every_s=LONG_INTERVAL_S)
    until(lambda: "is its API key an administrator's?" in service.output, what="the warning")
    assert service.http.get("/readyz").json()["ready"] is True
    open_webui.stop()


@pytest.mark.parametrize("id", ["../users", "a/b", "", "x" * 65, "a b"])
def test_an_id_that_would_change_the_path_is_refused(scene: Scene, id: str) -> None:
    before = list(scene.open_webui.requested)
    response = scene.service.http.post("/integrations/open-webui", json=event("created", id, 1))
    assert response.status_code == 400 and "is not a valid id of a feedback" in response.json()["error"]
    assert scene.open_webui.requested == before


def test_the_endpoint_is_disabled_until_it_is_configured(service: Service) -> None:
    response = service.http.post("/integrations/open-webui", json=event("created", "x", 1))
    assert response.status_code == 404 and "set open_webui_url and open_webui_key" in response.json()["error"]


@pytest.mark.long
def test_ratings_work_on_postgres(start: Start, postgres_url: str) -> None:
    open_webui = OpenWebui()
    service = start(CHAT, store=postgres_url, open_webui_url=open_webui.url, open_webui_key=KEY)
    service.wait_learned("chat", 15)
    scene = Scene(service, open_webui)
    feedback = open_webui.rate(scene.ask(), 1)
    assert scene.hook(event("created", feedback, 1)) == "accepted"
    assert httpx.get(f"{service.url}/v1/models/chat/feedback/open-webui-{feedback}.1").status_code == 200
    open_webui.stop()
