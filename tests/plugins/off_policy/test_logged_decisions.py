"""Decisions read from our own log and from foreign ones: rewards, propensities, candidates and errors."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from online.errors import BadInput
from online.plugins.off_policy.decisions import Decisions
from online.plugins.off_policy.logged_decisions import (
    NO_CHOICE,
    NO_FEEDBACK,
    CsvColumns,
    DecisionReadOptions,
    read_decision_log,
)

HEADER = {"format": "online-log/3", "model": "chat", "kind": "ranker", "options": {}, "feature_epoch": "minilm"}
FEATURES = base64.b64encode(bytes(384)).decode()


def prediction_line(id: str, choice: str | None, propensity: float = 0.5, event_count: int = 1) -> dict[str, Any]:
    answer = {"version": 1, "learned_until": 0, "choice": choice, "propensity": propensity}
    candidates = [["a", 0.9], ["b", 0.1]]
    caller = {"user": None, "created_at": None}
    return {
        "prediction": {
            "id": id,
            "input": "?",
            "features": FEATURES,
            "feedback_count": event_count,
            **answer,
            "candidates": candidates,
        }
        | caller
    }


def event_line(offset: int, about: str | None, kind: str, label: str = "", reward: float = 1.0) -> dict[str, Any]:
    event = {"id": f"e{offset}", "kind": kind, "label": label, "text": "", "reward": reward, "choice": None}
    return {
        "event": {"offset": offset, **event, "target": None, "prediction_id": about, "user": None, "created_at": None}
    }


def retraction_line(offset: int, line: dict[str, Any]) -> dict[str, Any]:
    retraction = event_line(offset, None, "retraction")
    event = {name: line["event"][name] for name in ("id", "kind", "label", "text", "reward", "choice", "target")}
    retraction["event"]["target"] = {"offset": line["event"]["offset"], "event": json.dumps(event)}
    return retraction


def read(tmp_path: Path, *lines: dict[str, Any], **header: Any) -> Decisions:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in ({**HEADER, **header}, *lines)))
    decisions, source = read_decision_log(str(path), DecisionReadOptions())
    assert source is not None
    return decisions


def test_the_last_feedback_that_is_not_retracted_is_the_reward(tmp_path: Path) -> None:
    thumb = event_line(4, "c", "reward", "a", 0.0)
    decisions = read(
        tmp_path,
        prediction_line("a", "a", event_count=2),
        event_line(1, "a", "reward", "a", 0.0),
        event_line(2, "a", "reward", "a", 0.75),
        prediction_line("b", "b"),
        event_line(3, "b", "correction", "a"),
        prediction_line("c", "a", event_count=3),
        thumb,
        event_line(5, "c", "label", "a"),
        prediction_line("d", "b"),
        event_line(6, "d", "label", "b"),
        event_line(7, "c", "reward", "a", 0.25),
        retraction_line(8, event_line(7, "c", "reward", "a", 0.25)),
    )
    assert decisions.ids == ["a", "b", "c", "d"]
    assert decisions.rewards_N.tolist() == [0.75, 0.0, 1.0, 1.0]
    assert decisions.feedback_offsets_N.tolist() == [2, 3, 5, 6]
    assert [decisions.actions[decisions.action_M[index]] for index in decisions.chosen_N] == ["a", "b", "a", "b"]
    assert decisions.one(1).candidates == ["a", "b"] and decisions.one(1).scores == [0.9, 0.1]
    assert not decisions.left_out


def test_predictions_without_feedback_or_choice_are_left_out_and_counted(tmp_path: Path) -> None:
    thumb = event_line(1, "a", "reward", "a")
    decisions = read(
        tmp_path,
        prediction_line("a", "a"),
        thumb,
        prediction_line("b", "b"),
        event_line(2, "b", "reward", "b"),
        prediction_line("silent", "a", event_count=0),
        prediction_line("abstained", None),
        event_line(3, "abstained", "label", "a"),
        retraction_line(4, thumb),
    )
    assert decisions.ids == ["b"]
    assert decisions.left_out == {NO_FEEDBACK: 2, NO_CHOICE: 1}


def test_after_a_certain_choice_no_other_candidate_was_possible(tmp_path: Path) -> None:
    decisions = read(
        tmp_path,
        prediction_line("a", "b", 1.0),
        event_line(1, "a", "reward"),
        prediction_line("b", "b", 0.05),
        event_line(2, "b", "reward"),
    )
    assert decisions.possible.tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    ("lines", "header", "message"),
    [
        ([], {}, "no decision with a reward"),
        ([prediction_line("a", "a")], {}, "1 predictions without feedback"),
        ([], {"kind": "regressor"}, "makes no choices"),
        ([prediction_line("a", "z"), event_line(1, "a", "reward")], {}, "'z' is not one of its candidates"),
        ([prediction_line("a", "a", 0.0), event_line(1, "a", "reward")], {}, "propensity is 0, which is not above 0"),
    ],
)
def test_logs_without_usable_decisions_are_refused(
    tmp_path: Path, lines: list[dict[str, Any]], header: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        read(tmp_path, *lines, **header)


def test_labelled_rows_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"input": [1], "label": "a"}')
    with pytest.raises(BadInput, match="holds labelled rows, not decisions"):
        read_decision_log(str(tmp_path / "rows.jsonl"), DecisionReadOptions())


# Vowpal Wabbit


def read_foreign(tmp_path: Path, text: str, name: str = "log.txt", **options: Any) -> Decisions:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return read_decision_log(str(path), DecisionReadOptions(**options))[0]


def test_a_cost_in_vw_text_becomes_one_minus_the_cost(tmp_path: Path) -> None:
    decisions = read_foreign(tmp_path, "2:0.25:0.4 | size:3 red\n1:1:0.5 'tag | size:1\n10:0:0.1 |user age:4\n")
    assert decisions.rewards_N.tolist() == [0.75, 0.0, 1.0]
    assert decisions.propensities_N.tolist() == [0.4, 0.5, 0.1]
    assert decisions.actions == ["1", "2", "10"] and np.diff(decisions.starts_N1).tolist() == [3, 3, 3]
    assert [json.loads(data) for data in decisions.features] == [{"red": 1, "size": 3}, {"size": 1}, {"user^age": 4}]
    assert "a cost c of [0, 1] is the reward (1 - c) / 1" in decisions.notes


def test_negative_costs_become_rewards_of_the_opposite_sign(tmp_path: Path) -> None:
    assert read_foreign(tmp_path, "1:-1:0.5 | a\n2:0:0.5 | a").rewards_N.tolist() == [1.0, 0.0]


def test_costs_of_an_unknown_range_need_the_range(tmp_path: Path) -> None:
    text = "1:-3:0.5 | a\n2:5:0.5 | a\n2:1:0.5 | a"
    with pytest.raises(BadInput, match=r"costs from -3 to 5.*--costs LOW:HIGH"):
        read_foreign(tmp_path, text)
    decisions = read_foreign(tmp_path, text, costs=(-1.0, 5.0))
    assert decisions.rewards_N.tolist() == [1.0, 0.0, 4 / 6]
    assert "1 costs outside of that range were clipped" in decisions.notes


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1:0:0.5", "expected `action:cost:probability | features`"),
        ("1:0.5 | a", "1:0.5 is a cost without its probability"),
        ("shared | a", "expected `action"),
        ("1:0:0.5 2:0:0.5 | a", "one action in a line"),
        ("1:0:0.5 2 1 | a", "its actions are not each listed once"),
        ("1:x:0.5 | a", "'x' is not a number"),
        ("1:nan:0.5 | a", "is not finite"),
        ("1:0:0 | a", "propensity is 0"),
        ("1:0:1.5 | a", "propensity is 1.5"),
        ("1:0:0.5 | a:5b", "its feature 'a' has the value '5b', which is neither a number nor a word"),
    ],
)
def test_a_bad_line_is_named_and_tolerated_up_to_the_allowed_ratio(tmp_path: Path, line: str, message: str) -> None:
    text = f"1:0:0.5 | a\n2:0:0.5 | a\n{line}\n"
    with pytest.raises(BadInput, match=f"line 3.*{message}"):
        read_foreign(tmp_path, text, format="vw")
    decisions = read_foreign(tmp_path, text, format="vw", max_bad_ratio=0.5)
    assert len(decisions) == 2 and decisions.left_out == {"bad lines": 1}


# dsjson


def dsjson_line(cost: float, chosen: int, probabilities: list[float], **more: Any) -> str:
    order = sorted(range(len(probabilities)), key=lambda index: index != chosen)
    outcome = {"_label_cost": cost, "_label_probability": probabilities[chosen], "_labelIndex": chosen}
    choices = {"a": [index + 1 for index in order], "p": [probabilities[index] for index in order]}
    return json.dumps({**outcome, **choices, "c": {"user": {"age": 3, "vip": True}, "_multi": [{}, {}]}, **more})


def test_dsjson_gives_every_candidates_probability(tmp_path: Path) -> None:
    text = "\n".join([dsjson_line(-1, 1, [0.2, 0.8]), dsjson_line(0, 0, [0.3, 0.7]), '{"RewardValue": 1}'])
    decisions = read_foreign(tmp_path, text)
    assert decisions.rewards_N.tolist() == [1.0, 0.0] and decisions.propensities_N.tolist() == [0.8, 0.3]
    assert decisions.logged_M is not None and decisions.logged_M.tolist() == [0.8, 0.2, 0.3, 0.7]
    assert decisions.one(0).candidates == ["2", "1"]
    assert json.loads(decisions.features[0]) == {"user.age": 3, "user.vip": "True"}


def test_probabilities_that_do_not_sum_to_one_are_reported(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"chances p that sum to 0.9"):
        read_foreign(tmp_path, dsjson_line(0, 0, [0.2, 0.7]))


# CSV

CLICKS = "at,item,place,click,p,age,town\n1,7,1,1,0.5,30,A\n2,9,2,0,1.0,40,B\n3,8,1,0,0.25,50,A\n"
NAMED = CsvColumns("item", "click", "p", "place", ("age", "town"))


def test_a_csv_is_read_by_its_named_columns_and_slots(tmp_path: Path) -> None:
    decisions = read_foreign(tmp_path, CLICKS, "clicks.csv.gz", columns=NAMED)
    assert decisions.rewards_N.tolist() == [1, 0, 0] and decisions.slots == ["1", "2", "1"]
    assert [decisions.one(index).candidates for index in range(3)] == [["7", "8"], ["9"], ["7", "8"]]
    assert json.loads(decisions.features[0]) == {"age": 30, "place": "1", "town": "A"}


def test_without_named_features_all_other_columns_are_the_context(tmp_path: Path) -> None:
    decisions = read_foreign(tmp_path, CLICKS, "clicks.csv", columns=CsvColumns("item", "click", "p"))
    assert set(json.loads(decisions.features[0])) == {"at", "place", "age", "town"}


def test_a_csv_with_unnamed_or_missing_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="name its columns with --action"):
        read_foreign(tmp_path, CLICKS, "clicks.csv")
    with pytest.raises(BadInput, match="no column 'reward'; it has at, item"):
        read_foreign(tmp_path, CLICKS, "clicks.csv", columns=CsvColumns("item", "reward", "p"))
    with pytest.raises(BadInput, match=r"line 2: its reward is 30, which does not lie in \[0, 1\]"):
        read_foreign(tmp_path, CLICKS, "clicks.csv", columns=CsvColumns("item", "age", "p"), max_bad_ratio=0.0)


@pytest.mark.parametrize("name", ["decisions.parquet", "part-00000"])
def test_decisions_in_parquet_are_refused_with_a_way_to_convert_them(tmp_path: Path, name: str) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"action": ["a"], "reward": [1.0]}), tmp_path / name)
    with pytest.raises(BadInput, match=f"{name} is a Parquet file, which this command does not read; write its"):
        read_decision_log(str(tmp_path / name), DecisionReadOptions())
