"""The fields of a line of a log, the events that it may hold, and where it may stand."""

import base64
import json
import re
from typing import Any

import pytest

from online.errors import BadInput
from online.evaluation.sources.bad_lines import BadLines, LogGaps
from online.evaluation.sources.log_format import LoggedEvent, LoggedPrediction
from online.evaluation.sources.log_lines import LineParser, find_features_check, parse_header, read_log
from online.models import KINDS
from online.schemas.events import Event

HEADER = {"format": "online-log/3", "model": "m", "kind": "classifier", "options": {"input": "vector", "size": 1}}
FEATURES = base64.b64encode(b"\0" * 8).decode()


def prediction(id: str = "p", **changed: Any) -> dict[str, Any]:
    answer = {"version": 0, "learned_until": 0, "choice": None, "propensity": 1.0, "candidates": [["a", 0.5]]}
    return {
        "prediction": {
            "id": id,
            "input": [0.0],
            "features": FEATURES,
            "feedback_count": 1,
            **answer,
            "user": None,
            "created_at": None,
        }
        | changed
    }


def event(offset: int = 1, **changed: Any) -> dict[str, Any]:
    label = {"id": f"e{offset}", "kind": "label", "label": "a", "text": "", "reward": 1.0, "choice": None}
    return {"event": {"offset": offset, **label, "target": None, "prediction_id": "p"} | changed}


def write_version_2(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line, or a header, with the keys of version 2."""
    header = {"prediction_count": "asked", "event_count": "told", "online-log/3": "online-log/2"}
    names = {"prediction": "asked", "event": "told", "feedback_count": "told", "exclude": "besides"} | header
    names |= {"prediction_id": "about", "created_at": "at", "refusal": "refused"}
    text = json.dumps(line)
    for name, former in names.items():
        text = re.sub(rf'"{name}"', f'"{former}"', text)
    return json.loads(text)  # type: ignore[no-any-return]


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
        (prediction(id=""), "its 'id' is empty"),
        (prediction(feedback_count=True), "its 'feedback_count' is true, not a whole number from 0"),
        (prediction(version="1"), "its 'version' is \"1\", not a whole number from 0"),
        (prediction(propensity=None), "its 'propensity' is null, not a finite number"),
        (prediction(candidates=[["a"]]), r"its 'candidates' has \['a'\], which is no pair of an id and a score"),
        (prediction(exclude="a"), "its 'exclude' is \"a\", not a list of texts"),
        (prediction(features="%"), "its 'features' is no base64"),
        (prediction(features="", input=None), "features of 0 bytes where 8 are expected"),
        (event(offset=0), "its 'offset' is 0, not a whole number from 1"),
        (event(offset=2**63), "not a whole number from 1"),
        (event(reward=1.5), "its 'reward' is 1.5, not from 0 to 1"),
        (event(created_at=5), "its 'created_at' is 5, which is no time since 1970"),
        (event(created_at=[1]), r"its 'created_at' is '\[1\]', which is neither a number nor a time"),
        (event(kind=["label"]), r"is an event of an unknown kind, \['label'\]"),
        (event(kind="retraction"), "it retracts nothing: its 'target' is null"),
        (event(target={"offset": 1, "event": "[]"}), "its 'target' is no event: its 'event' is"),
        (event(target={"offset": 1, "event": "[" * 100_000}), "its 'target'"),
        (event(prediction_id=None), r"it names no prediction \('prediction_id'\)"),
        ({**prediction(), **event()}, "is both a prediction and an event"),
        ({}, "is neither a prediction nor an event: nothing"),
    ],
)
def test_a_line_that_cannot_be_used_says_what_is_wrong(line: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=f"log, line 7 .*{sentence}"):
        parse(line)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (prediction(feedback_count=True), "its 'told' is true, not a whole number from 0"),
        (prediction(exclude="a"), "its 'besides' is \"a\", not a list of texts"),
        (event(created_at=5), "its 'at' is 5, which is no time since 1970"),
        (event(refusal=5), "its 'refused' is 5, not a text"),
        (event(prediction_id=None), r"it names no prediction \('about'\)"),
        ({"prediction": 5}, "its 'asked' is 5, not an object"),
    ],
)
def test_what_is_wrong_in_a_log_of_version_2_is_said_with_its_own_keys(line: dict[str, Any], sentence: str) -> None:
    header = write_version_2({**HEADER, "event_count": 0})
    lines, bad = read(write_version_2(line), write_version_2(event(1)), header=header)
    assert [line.event.offset for line in lines] == [1]
    assert re.search(rf"log, line 2 is not a line of online-log/2: {sentence}", bad.first[0])


def test_keys_of_version_3_are_unknown_in_a_log_of_version_2() -> None:
    _, bad = read(event(1), header=write_version_2(HEADER))
    assert bad.first[0].startswith("log, line 2 is neither a prediction nor an event: 'event'")


def test_a_log_of_version_2_says_the_same_as_its_twin() -> None:
    lines = [
        prediction(exclude=["b"], feedback_count=2),
        event(1, created_at="2026-05-04T08:00:00+00:00", refusal="odd"),
    ]
    header = {**HEADER, "event_count": 3, "prediction_count": 2}
    former = parse_header(json.dumps(write_version_2(header)), "log")
    read_former, bad_former = read(*map(write_version_2, lines), header=former)
    read_new, bad_new = read(*lines, header=header)
    assert read_former == read_new and bad_former == bad_new and bad_new.gaps.events == 2


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
    assert parse(event(created_at=at)).at == read_at


def test_each_field_of_instants_has_one_unit() -> None:
    lines, bad = read(
        event(1, created_at=1_777_881_600), event(2, created_at=1_777_881_600_000), event(3, created_at=1_777_881_700)
    )
    assert [line.event.offset for line in lines] == [1, 3]
    assert bad.first == [
        "log, line 3 is not a line of online-log/3: its 'created_at' is 1777881600000, which is in milliseconds, below values in seconds"
    ]


def test_a_retraction_keeps_the_event_that_it_takes_back() -> None:
    given = Event("e1", "label", b"\0" * 8, "a", target=None, holder=3)
    target = {"offset": 1, "event": given.body()}
    line = parse(event(2, kind="retraction", target=target, features=FEATURES))
    assert isinstance(line, LoggedEvent) and line.event.target == given.at(1)


def test_an_event_keeps_whose_feedback_it_is() -> None:
    """Sums of a device are judged without its own feedback, in a replay as in the service."""
    line = parse(event(holder=3))
    assert isinstance(line, LoggedEvent) and line.event.holder == 3


def test_an_event_that_comes_again_at_another_offset_counts_once() -> None:
    lines, bad = read(prediction(), event(1), event(2, id="e1"), event(3))
    assert [line.event.offset for line in lines[1:]] == [1, 3]
    assert (bad.count, bad.gaps) == (0, LogGaps(repeated=1))


def test_gaps_are_counted_up_to_the_number_in_the_header() -> None:
    _, bad = read(event(3), event(4), event(8), header={**HEADER, "event_count": 10, "prediction_count": 1})
    assert (bad.count, bad.gaps) == (0, LogGaps(events=7, first=1, predictions=1))


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ({"kind": 5}, "its 'kind' is 5, not a text"),
        ({"options": []}, "its 'options' is a list, not an object"),
        ({"options": {"size": "wide"}}, "its 'options' cannot be used: invalid literal"),
        ({"drift": "often"}, "its 'drift' is \"often\", not one of off, watch, act"),
        ({"event_count": "many"}, "its 'event_count' is \"many\", not a whole number from 0"),
    ],
)
def test_a_header_that_cannot_be_used_says_what_is_wrong(header: dict[str, Any], sentence: str) -> None:
    with pytest.raises(
        BadInput, match=rf"log, line 1 is no header of online-log/3: .*{sentence}.*; export the log again"
    ):
        parse_header(json.dumps({**HEADER, **header}), "log")


@pytest.mark.parametrize("kind", KINDS)
def test_the_features_of_a_log_are_checked_as_its_kind_reads_them(kind: str) -> None:
    check = find_features_check({"kind": kind, "options": {}})
    with pytest.raises(ValueError, match="features"):
        check(b"\0" * 5)


def test_features_of_a_kind_that_is_unknown_here_are_not_checked() -> None:
    find_features_check({"kind": "somebody.s:Kind", "options": {}})(b"\0" * 5)
