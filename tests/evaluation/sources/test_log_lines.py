"""The fields of a line of a log, the events that it may hold, and where it may stand."""

import base64
import json
from typing import Any

import pytest

from online.errors import BadInput
from online.evaluation.sources.bad_lines import BadLines, LogGaps
from online.evaluation.sources.log_format import LoggedEvent, LoggedPrediction
from online.evaluation.sources.log_lines import LineParser, find_features_check, parse_header, read_log
from online.models import KINDS
from online.schemas.events import Event, Target

HEADER = {"format": "online-log/2", "model": "m", "kind": "classifier", "options": {"input": "vector", "size": 1}}
FEATURES = base64.b64encode(b"\0" * 8).decode()


def asked(id: str = "p", **changed: Any) -> dict[str, Any]:
    answer = {"version": 0, "learned_until": 0, "choice": None, "propensity": 1.0, "candidates": [["a", 0.5]]}
    return {
        "asked": {"id": id, "input": [0.0], "features": FEATURES, "told": 1, **answer, "user": None, "at": None}
        | changed
    }


def told(offset: int = 1, **changed: Any) -> dict[str, Any]:
    event = {"id": f"e{offset}", "kind": "label", "label": "a", "text": "", "reward": 1.0, "choice": None}
    return {"told": {"offset": offset, **event, "target": None, "about": "p"} | changed}


def read(*lines: dict[str, Any], header: dict[str, Any] | None = None) -> tuple[list[Any], BadLines]:
    """Return what the lines of a log say, and what is wrong with the others."""
    bad = BadLines(1.0)
    texts = [json.dumps(line) + "\n" for line in [header or HEADER, *lines]]
    return [line for _, line in read_log(texts, "log", header or HEADER, bad)], bad


def parse(line: dict[str, Any]) -> LoggedPrediction | LoggedEvent:
    return LineParser("log", find_features_check(HEADER)).parse(line, 7)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (asked(id=""), "its 'id' is empty"),
        (asked(told=True), "its 'told' is true, not a whole number from 0"),
        (asked(version="1"), "its 'version' is \"1\", not a whole number from 0"),
        (asked(propensity=None), "its 'propensity' is null, not a finite number"),
        (asked(candidates=[["a"]]), r"its 'candidates' has \['a'\], which is no pair of an id and a score"),
        (asked(besides="a"), "its 'besides' is \"a\", not a list of texts"),
        (asked(features="%"), "its 'features' is no base64"),
        (asked(features="", input=None), "features of 0 bytes where 8 are expected"),
        (told(offset=0), "its 'offset' is 0, not a whole number from 1"),
        (told(offset=2**63), "not a whole number from 1"),
        (told(reward=1.5), "its 'reward' is 1.5, not from 0 to 1"),
        (told(at=5), "its 'at' is 5, which is no time since 1970"),
        (told(at=[1]), r"its 'at' is '\[1\]', which is neither a number nor a time"),
        (told(kind=["label"]), r"is an event of an unknown kind, \['label'\]"),
        (told(kind="retraction"), "it retracts nothing: its 'target' is null"),
        (told(target={"offset": 1, "event": "[]"}), "its 'target' is no event: its 'event' is"),
        (told(target={"offset": 1, "event": "[" * 100_000}), "its 'target'"),
        (told(about=None), "it names no prediction"),
        ({**asked(), **told()}, "is both a prediction and an event"),
        ({}, "is neither a prediction nor an event: nothing"),
    ],
)
def test_a_line_that_cannot_be_used_says_what_is_wrong(line: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=f"log, line 7 .*{sentence}"):
        parse(line)


@pytest.mark.parametrize(
    ("at", "read_at"),
    [
        ("2026-05-04T08:00:00+02:00", "2026-05-04T08:00:00+02:00"),
        ("2026-05-04 08:00:00", "2026-05-04T08:00:00+00:00"),
        (1_777_881_600, "2026-05-04T08:00:00+00:00"),
        (1_777_881_600_000, "2026-05-04T08:00:00+00:00"),
        (1_777_881_600_000_000_000, "2026-05-04T08:00:00+00:00"),
        (None, None),
    ],
)
def test_an_instant_of_a_log_has_a_zone(at: Any, read_at: str | None) -> None:
    assert parse(told(at=at)).at == read_at


def test_each_field_of_instants_has_one_unit() -> None:
    lines, bad = read(told(1, at=1_777_881_600), told(2, at=1_777_881_600_000), told(3, at=1_777_881_700))
    assert [line.entry.offset for line in lines] == [1, 3]
    assert bad.first == [
        "log, line 3 is not a line of online-log/2: its 'at' is 1777881600000, which is in milliseconds, below values in seconds"
    ]


def test_a_retraction_keeps_the_event_that_it_takes_back() -> None:
    event = Event("e1", "label", b"\0" * 8, "a", target=None, holder=3)
    target = {"offset": 1, "event": event.body()}
    line = parse(told(2, kind="retraction", target=target, features=FEATURES))
    assert isinstance(line, LoggedEvent) and line.entry.event.target == Target(1, event)


def test_an_event_keeps_whose_feedback_it_is() -> None:
    """Sums of a device are judged without its own feedback, in a replay as in the service."""
    line = parse(told(holder=3))
    assert isinstance(line, LoggedEvent) and line.entry.event.holder == 3


def test_an_event_that_comes_again_at_another_offset_counts_once() -> None:
    lines, bad = read(asked(), told(1), told(2, id="e1"), told(3))
    assert [line.entry.offset for line in lines[1:]] == [1, 3]
    assert (bad.count, bad.gaps) == (0, LogGaps(repeated=1))


def test_gaps_are_counted_up_to_the_number_in_the_header() -> None:
    _, bad = read(told(3), told(4), told(8), header={**HEADER, "told": 10, "asked": 1})
    assert (bad.count, bad.gaps) == (0, LogGaps(events=7, first=1, predictions=1))


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ({"kind": 5}, "its 'kind' is 5, not a text"),
        ({"options": []}, "its 'options' is a list, not an object"),
        ({"options": {"size": "wide"}}, "its 'options' cannot be used: invalid literal"),
        ({"drift": "often"}, "its 'drift' is \"often\", not one of off, watch, act"),
        ({"told": "many"}, "its 'told' is \"many\", not a whole number from 0"),
    ],
)
def test_a_header_that_cannot_be_used_says_what_is_wrong(header: dict[str, Any], sentence: str) -> None:
    with pytest.raises(
        BadInput, match=rf"log, line 1 is no header of online-log/2: .*{sentence}.*; export the log again"
    ):
        parse_header(json.dumps({**HEADER, **header}), "log")


@pytest.mark.parametrize("kind", KINDS)
def test_the_features_of_a_log_are_checked_as_its_kind_reads_them(kind: str) -> None:
    check = find_features_check({"kind": kind, "options": {}})
    with pytest.raises(ValueError, match="features"):
        check(b"\0" * 5)


def test_features_of_a_kind_that_is_unknown_here_are_not_checked() -> None:
    find_features_check({"kind": "somebody.s:Kind", "options": {}})(b"\0" * 5)
