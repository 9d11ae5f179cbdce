"""Ratings of an Open WebUI 0.12.4 (and 0.10, whose events say no rating), as recorded: learned once, undone on delete."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.conftest import Start, config
from tests.serving.others import KEY, OpenWebuiThere, event
from tests.support import Service, until

OPEN = "When do you open?"
NONSENSE = "qwertz zxcvb 12345 asdfgh"
SELDOM_S = 3_600.0
CHAT = '\n[[models]]\nname = "chat"\nkind = "ranker"\n'


@dataclass
class Scene:
    """A service and an Open WebUI that know each other."""

    service: Service
    there: OpenWebuiThere

    def ask(self, question: str = OPEN, **headers: str) -> str:
        """Gives the id of the message that shows the reply there."""
        message_id = str(uuid.uuid4())
        body = {"model": "chat", "messages": [{"role": "user", "content": question}]}
        headers = {"X-Message-Id": message_id, "X-Task": "", **headers}
        assert self.service.http.post("/v1/chat/completions", json=body, headers=headers).status_code == 200
        return message_id

    def hook(self, told: dict[str, Any]) -> str:
        response = self.service.http.post("/integrations/open-webui", json=told)
        assert response.status_code == 202, response.text
        return str(response.json()["status"])

    def head(self) -> int:
        return int(self.service.http.get("/v1/models/chat").json()["head"])

    def fates(self, feedback: str) -> list[str]:
        """Of everything that was given here for one feedback there: whether it stands."""
        fates: list[str] = []
        while True:
            response = self.service.http.get(f"/v1/models/chat/feedback/open-webui-{feedback}.{len(fates) + 1}")
            if response.status_code == 404:
                return fates
            fates.append("gone" if response.json()["status"] == "retracted" else "stands")

    def settled(self) -> str:
        """The hash of what is learned of everything so far."""
        self.service.wait_learned("chat", self.head())
        return str(self.service.versions("chat")[0]["state_sha256"])


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    there, folder = OpenWebuiThere(), tmp_path_factory.mktemp("open-webui")
    settings: dict[str, str | int | float] = {
        "open_webui_url": there.url,
        "open_webui_key": KEY,
        "open_webui_every_s": SELDOM_S,
    }
    service = Service(folder / "state", config(folder, CHAT, **settings))
    yield Scene(service, there)
    service.stop()
    there.stop()


@pytest.fixture
def scene(both: Scene) -> Iterator[Scene]:
    """Nothing is rated before it or after it."""
    both.service.wait_learned("chat", 15)
    yield both
    rated = list(both.there.kept)
    both.there.kept.clear()
    for feedback in rated:
        both.hook(event("deleted", feedback))
    both.settled()


def test_a_thumb_is_learned_and_taken_back_when_it_is_deleted(scene: Scene) -> None:
    before, message = scene.settled(), scene.ask()
    feedback = scene.there.rate(message, 1)
    assert scene.hook(event("created", feedback, 1)) == "accepted"
    assert scene.fates(feedback) == ["stands"] and scene.settled() != before
    del scene.there.kept[feedback]
    assert scene.hook(event("deleted", feedback)) == "retracted"
    assert scene.fates(feedback) == ["gone"] and scene.settled() == before


@pytest.mark.parametrize("rating", [1, "1", -1, "-1"])
def test_a_thumb_is_a_number_or_a_text(scene: Scene, rating: int | str) -> None:
    with_rating = scene.there.rate(scene.ask(), rating)
    assert scene.hook(event("created", with_rating)) == "accepted"


def test_events_that_come_twice_are_learned_once(scene: Scene) -> None:
    feedback = scene.there.rate(scene.ask(), -1)
    before = scene.head()
    for told in [event("created", feedback, -1)] * 2 + [event("updated", feedback, -1)] * 2:
        assert scene.hook(told) == "accepted"
    assert scene.head() == before + 1 and scene.fates(feedback) == ["stands"]


def test_a_reason_and_tags_that_come_after_the_thumb_are_no_other_thumb(scene: Scene) -> None:
    message = scene.ask()
    feedback = scene.there.rate(message, -1, tags=None)
    scene.hook(event("created", feedback, -1))
    before = scene.head()
    scene.there.rate(message, -1, feedback, reason="not_helpful", comment="Sundays?", details={"rating": 3})
    assert scene.hook(event("updated", feedback, -1)) == "accepted"
    assert scene.head() == before and scene.fates(feedback) == ["stands"]


def test_another_thumb_takes_the_place_of_the_first(scene: Scene) -> None:
    message = scene.ask()
    feedback = scene.there.rate(message, 1)
    scene.hook(event("created", feedback, 1))
    scene.there.rate(message, -1, feedback)
    assert scene.hook(event("updated", feedback, -1)) == "accepted"
    assert scene.fates(feedback) == ["gone", "stands"]


def test_events_in_any_order_end_as_it_is_there(scene: Scene) -> None:
    before, message = scene.settled(), scene.ask()
    feedback = scene.there.rate(message, 1)
    scene.there.rate(message, -1, feedback)
    late = [event("updated", feedback, -1), event("created", feedback, 1), event("updated", feedback, -1)]
    assert [scene.hook(told) for told in late] == ["accepted"] * 3
    assert scene.fates(feedback) == ["stands"]
    del scene.there.kept[feedback]
    backwards = [event("deleted", feedback), event("updated", feedback, -1), event("created", feedback, 1)]
    assert [scene.hook(told) for told in backwards] == ["retracted"] * 3
    assert scene.fates(feedback) == ["gone"] and scene.settled() == before


def test_a_deletion_that_comes_before_everything_else_leaves_nothing(scene: Scene) -> None:
    before, feedback = scene.head(), str(uuid.uuid4())
    assert scene.hook(event("deleted", feedback)) == "ignored"
    assert scene.hook(event("created", feedback, 1)) == "ignored"
    assert scene.head() == before


def test_an_event_of_0_10_has_no_rating_and_the_one_that_is_kept_there_counts(scene: Scene) -> None:
    feedback = scene.there.rate(scene.ask(), 1)
    assert scene.hook(event("created", feedback, None)) == "accepted"
    assert scene.hook(event("updated", feedback, None)) == "accepted"
    assert scene.fates(feedback) == ["stands"]


def test_a_rating_that_is_null_there_is_taken_back(scene: Scene) -> None:
    before, message = scene.settled(), scene.ask()
    feedback = scene.there.rate(message, 1)
    scene.hook(event("created", feedback, 1))
    scene.there.rate(message, None, feedback)
    assert scene.hook(event("updated", feedback, None)) == "retracted"
    assert scene.fates(feedback) == ["gone"] and scene.settled() == before
    scene.there.rate(message, 1, feedback)
    assert scene.hook(event("updated", feedback, 1)) == "accepted"
    assert scene.fates(feedback) == ["gone", "stands"]


def test_a_stranger_cannot_say_what_was_not_said_there(scene: Scene) -> None:
    feedback = scene.there.rate(scene.ask(), 1)
    scene.hook(event("created", feedback, 1))
    assert scene.hook(event("updated", feedback, -1)) == "accepted"
    assert scene.hook(event("deleted", feedback)) == "accepted"
    assert scene.fates(feedback) == ["stands"]


def test_a_rating_of_another_models_answer_is_ignored(scene: Scene) -> None:
    before = scene.head()
    feedback = scene.there.rate(str(uuid.uuid4()), 1)
    assert scene.hook(event("created", feedback, 1)) == "ignored"
    assert scene.head() == before


def test_a_rating_of_an_answer_that_knew_nothing_is_ignored(scene: Scene) -> None:
    before = scene.head()
    feedback = scene.there.rate(scene.ask(NONSENSE), -1)
    assert scene.hook(event("created", feedback, -1)) == "ignored"
    assert scene.head() == before
    until(lambda: "rating not taken" in scene.service.output, what="the line in the log")


def test_a_task_of_the_page_is_not_what_the_message_shows(scene: Scene) -> None:
    message = scene.ask()
    body = {"model": "chat", "messages": [{"role": "user", "content": "### Task:\nGenerate a title."}]}
    for _ in range(2):
        scene.service.http.post("/v1/chat/completions", json=body, headers={"X-Message-Id": message})
    feedback = scene.there.rate(message, 1)
    assert scene.hook(event("created", feedback, 1)) == "accepted"


def test_who_rated_can_be_erased_and_stays_so(scene: Scene) -> None:
    message = scene.ask()
    feedback = scene.there.rate(message, 1, comment="my words")
    scene.there.kept[feedback]["user_id"] = "erasmus"
    scene.hook(event("created", feedback, 1))
    assert scene.service.client("chat").erase("erasmus")["feedback"] == 1
    scene.hook(event("updated", feedback, 1))
    scene.there.rate(message, -1, feedback)
    scene.hook(event("updated", feedback, -1))
    assert scene.fates(feedback) == ["gone"]


def test_what_was_taken_back_here_stays_so_until_it_is_said_anew_there(scene: Scene) -> None:
    message = scene.ask()
    feedback = scene.there.rate(message, 1)
    scene.hook(event("created", feedback, 1))
    scene.service.client("chat").retract(f"open-webui-{feedback}.1")
    assert scene.hook(event("updated", feedback, 1)) == "retracted"
    assert scene.fates(feedback) == ["gone"]
    scene.there.rate(message, 1, feedback)
    assert scene.hook(event("updated", feedback, 1)) == "accepted"
    assert scene.fates(feedback) == ["gone", "stands"]


def test_other_events_are_not_looked_at(scene: Scene) -> None:
    asked = list(scene.there.asked)
    for other in ({**event("created", "x"), "event": "chat.created"}, {"event": "system.startup.completed"}):
        assert scene.hook(other) == "ignored"
    assert scene.there.asked == asked


# what was missed


def after_a_look(scene: Scene) -> None:
    """Return once the service has looked at everything there."""
    asked = len(scene.there.asked)
    scene.hook(event("deleted_all", "nobody"))
    scene.hook(event("deleted_all", "nobody"))
    until(lambda: scene.there.asked[asked:].count("/feedbacks/all/ids") >= 1, what="a look")
    scene.hook(event("created", scene.there.rate("no message of ours", 1), 1))  # waits for the look to end


def test_what_was_rated_while_nobody_told_is_fetched_at_the_start(start: Start) -> None:
    there = OpenWebuiThere()
    service = start(CHAT, open_webui_url=there.url, open_webui_key=KEY, open_webui_every_s=SELDOM_S)
    service.wait_learned("chat", 15)
    scene = Scene(service, there)
    messages = [scene.ask() for _ in range(3)]
    service.stop()
    rated = [there.rate(message, 1) for message in messages]
    for _ in range(70):  # more than two pages of what is not ours
        there.rate(str(uuid.uuid4()), 1)
    scene.service = start(CHAT, open_webui_url=there.url, open_webui_key=KEY, open_webui_every_s=SELDOM_S)
    until(lambda: [scene.fates(feedback) for feedback in rated] == [["stands"]] * 3, what="three ratings")
    there.stop()


def test_it_is_looked_at_again_and_again(start: Start) -> None:
    there = OpenWebuiThere()
    service = start(CHAT, open_webui_url=there.url, open_webui_key=KEY, open_webui_every_s=0.05)
    service.wait_learned("chat", 15)
    scene = Scene(service, there)
    message = scene.ask()
    feedback = there.rate(message, 1)
    until(lambda: scene.fates(feedback) == ["stands"], what="the rating")
    there.kept[feedback]["data"] = {"rating": -1}  # in the same second
    until(lambda: scene.fates(feedback) == ["gone", "stands"], what="the other rating")
    del there.kept[feedback]
    until(lambda: scene.fates(feedback) == ["gone", "gone"], what="the deletion")
    there.stop()


def test_deleting_all_takes_all_back(scene: Scene) -> None:
    before = scene.settled()
    rated = [scene.there.rate(scene.ask(), 1) for _ in range(2)]
    for feedback in rated:
        scene.hook(event("created", feedback, 1))
    scene.there.kept.clear()
    assert scene.hook(event("deleted_all", "all")) == "waiting"
    until(lambda: all(scene.fates(feedback) == ["gone"] for feedback in rated), what="taking all back")
    assert scene.settled() == before


def test_what_did_not_move_is_not_fetched_again(scene: Scene) -> None:
    for _ in range(40):
        scene.there.rate(str(uuid.uuid4()), 1)
    after_a_look(scene)
    after_a_look(scene)
    asked = len(scene.there.asked)
    after_a_look(scene)
    assert sum(path == "/feedbacks/list" for path in scene.there.asked[asked:]) <= 2


def test_an_open_webui_that_answers_with_errors_takes_nothing_back(scene: Scene) -> None:
    message = scene.ask()
    feedback = scene.there.rate(message, 1)
    scene.hook(event("created", feedback, 1))
    for status in (404, 500, 401):
        scene.there.status = status
        assert scene.hook(event("deleted", feedback)) == "waiting"
        assert scene.hook(event("updated", feedback, None)) == "waiting"
        scene.hook(event("deleted_all", "all"))
    scene.there.status = 200
    after_a_look(scene)
    assert scene.fates(feedback) == ["stands"]


def test_an_open_webui_that_is_away_takes_nothing_back(start: Start) -> None:
    there = OpenWebuiThere()
    service = start(CHAT, open_webui_url=there.url, open_webui_key=KEY, open_webui_every_s=SELDOM_S)
    service.wait_learned("chat", 15)
    scene = Scene(service, there)
    feedback = there.rate(scene.ask(), 1)
    scene.hook(event("created", feedback, 1))
    there.stop()
    assert scene.hook(event("deleted", feedback)) == "waiting"
    again = OpenWebuiThere(there.port)
    again.kept = there.kept
    assert scene.hook(event("deleted", feedback)) == "accepted" and scene.fates(feedback) == ["stands"]
    again.stop()


def test_a_key_that_is_not_one_is_said_in_the_log(start: Start) -> None:
    there = OpenWebuiThere()
    service = start(CHAT, open_webui_url=there.url, open_webui_key="sk-wrong", open_webui_every_s=SELDOM_S)
    until(lambda: "is its API key an administrator's?" in service.output, what="the warning")
    assert service.http.get("/readyz").json()["ready"] is True
    there.stop()


@pytest.mark.parametrize("id", ["../users", "a/b", "", "x" * 65, "a b"])
def test_an_id_that_would_lead_elsewhere_is_refused(scene: Scene, id: str) -> None:
    asked = list(scene.there.asked)
    response = scene.service.http.post("/integrations/open-webui", json=event("created", id, 1))
    assert response.status_code == 400 and "cannot be the id of a feedback" in response.json()["error"]
    assert scene.there.asked == asked


def test_it_is_shut_until_it_is_set_up(service: Service) -> None:
    response = service.http.post("/integrations/open-webui", json=event("created", "x", 1))
    assert response.status_code == 404 and "set open_webui_url and open_webui_key" in response.json()["error"]


def test_it_works_on_postgres(start: Start, postgres_url: str) -> None:
    there = OpenWebuiThere()
    service = start(CHAT, store=postgres_url, open_webui_url=there.url, open_webui_key=KEY)
    service.wait_learned("chat", 15)
    scene = Scene(service, there)
    feedback = there.rate(scene.ask(), 1)
    assert scene.hook(event("created", feedback, 1)) == "accepted"
    assert httpx.get(f"{service.url}/v1/models/chat/feedback/open-webui-{feedback}.1").status_code == 200
    there.stop()
