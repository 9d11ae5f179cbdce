"""What a newer release has written is never skipped: the learner stops before it, and the service goes on with what it has."""

import json
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from online.errors import CorruptSnapshot, NewerRelease
from online.schemas.control import ControlChange
from online.schemas.events import Event
from online.snapshots.agreed import ServingState
from online.snapshots.roll_back import Freeze
from online.store import Store
from online.store.events import append_events
from online.store.refusals import load_refusals
from tests.conftest import Start
from tests.learning.scene import Scene, vector_events
from tests.support import until

NEWER = {
    "a kind": Event("later", "hologram"),  # type: ignore[arg-type]
    "a change of the versions": Event("later", "control", control='{"action":"teleport"}'),
    "a field of a change": Event("later", "control", control='{"action":"freeze","colour":"red"}'),
}


@pytest.mark.parametrize("what", NEWER)
def test_a_learner_stops_before_an_event_of_a_newer_release(what: str, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.learn(*vector_events(4))
    for event in (*vector_events(2, 4), NEWER[what], *vector_events(2, 6)):
        scene.stream.append(event)
    with pytest.raises(NewerRelease, match="which this version of online does not know: a newer one has written it"):
        while True:
            scene.learner.step()
    assert scene.learner.training.learned_until == 6
    recipe = scene.learner.recipe
    assert scene.workspace.store.read(lambda connection: load_refusals(connection, "m", recipe)) == {}


def test_what_was_learned_before_such_an_event_is_published(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for event in (*vector_events(6), NEWER["a kind"]):
        scene.stream.append(event)
    with pytest.raises(NewerRelease):
        scene.learner.run(threading.Event())
    assert scene.live_until() == 6


def test_a_learner_does_not_start_where_a_newer_release_has_changed_the_versions(tmp_path: Path) -> None:
    """Also where that release has learned further: the change would be passed over."""
    scene = Scene(tmp_path)
    scene.stream.append(NEWER["a change of the versions"])
    with pytest.raises(NewerRelease, match="a control event of the log has 'teleport'"):
        scene.start_learner()


def add_field(event: Event) -> str:
    return json.dumps({**json.loads(event.body()), "colour": "red"})


@pytest.mark.parametrize("event", [Event("e", "label"), Event("r", "retraction", target=Event("e", "label"))])
def test_an_event_with_a_field_of_a_newer_release_is_not_read(event: Event) -> None:
    with pytest.raises(NewerRelease, match=r"^the event of the log at offset 7 has 'colour'"):
        Event.parse(add_field(event), b"", 7)


FROZEN = ServingState(frozen=Freeze("2026-01-01T00:00:00+00:00", "a test"))


@pytest.mark.parametrize(
    ("written", "parse"),
    [
        ({**asdict(FROZEN), "colour": "red"}, ServingState.parse),
        ({**asdict(FROZEN), "frozen": {**asdict(FROZEN)["frozen"], "colour": "red"}}, ServingState.parse),
        ({"action": "thaw", "colour": "red"}, ControlChange.parse),
    ],
)
def test_a_state_or_a_change_with_a_field_of_a_newer_release_is_not_read(
    written: dict[str, Any], parse: Callable[[str], object]
) -> None:
    with pytest.raises(NewerRelease, match="has 'colour', which this version of online does not know"):
        parse(json.dumps(written))


@pytest.mark.parametrize("change", [{"format": 2}, {"colour": "red"}])
def test_a_version_of_a_newer_release_does_not_become_live(change: dict[str, object], tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.learn(*vector_events(4))
    live = scene.snapshots.folder.live_number()
    path = scene.snapshots.folder.path / str(live) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CorruptSnapshot, match=f"the manifest of m version {live} has .*: a newer one has written it"):
        scene.snapshots.folder.manifest(live)


VEC = '[[models]]\nname = "vec"\nkind = "classifier"\noptions = { input = "vector", size = 2, scale = 4.0 }'


def test_a_service_answers_and_says_why_it_learns_no_more(start: Start) -> None:
    service = start(VEC)
    with service.client("vec") as client, closing(Store(f"sqlite:///{service.state / 'online.db'}")) as store:
        known = client.feedback([{"input": [n, 0], "label": "ab"[n]} for n in (0, 1)])
        client.wait_until_learned(known[-1]["offset"], 60)
        store.submit(lambda connection: append_events(connection, "vec", [NEWER["a kind"]])).result()
        client.feedback([{"input": [1, 1], "label": "b"}])
        until(lambda: "the event of the log at offset 3 has 'hologram'" in service.output)
        assert client.predict([[1, 0]])["learned_until"] == 2
        assert client.status()["head"] == 4
