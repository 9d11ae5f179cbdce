"""Logged decisions out of our log and of what others log: rewards, propensities, candidates, and what is refused."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from online.errors import BadInput
from online.evaluation.bandit_formats import Columns, Reading, read_decisions
from online.evaluation.decisions import NO_CHOICE, NO_FEEDBACK, Decisions

HEADER = {"format": "online-log/2", "model": "chat", "kind": "ranker", "options": {}, "feature_epoch": "minilm"}
FEATURES = base64.b64encode(bytes(384)).decode()


def asked(id: str, choice: str | None, propensity: float = 0.5, told: int = 1) -> dict[str, Any]:
    answered = {"version": 1, "learned_until": 0, "choice": choice, "propensity": propensity}
    candidates = [["a", 0.9], ["b", 0.1]]
    who = {"user": None, "at": None}
    return {
        "asked": {"id": id, "input": "?", "features": FEATURES, "told": told, **answered, "candidates": candidates}
        | who
    }


def told(offset: int, about: str | None, kind: str, label: str = "", reward: float = 1.0) -> dict[str, Any]:
    said = {"id": f"e{offset}", "kind": kind, "label": label, "text": "", "reward": reward, "choice": None}
    return {"told": {"offset": offset, **said, "target": None, "about": about, "user": None, "at": None}}


def retracted(offset: int, line: dict[str, Any]) -> dict[str, Any]:
    taken_back = told(offset, None, "retraction")
    event = {name: line["told"][name] for name in ("id", "kind", "label", "text", "reward", "choice", "target")}
    taken_back["told"]["target"] = {"offset": line["told"]["offset"], "event": json.dumps(event)}
    return taken_back


def read(tmp_path: Path, *lines: dict[str, Any], **header: Any) -> Decisions:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in ({**HEADER, **header}, *lines)))
    decisions, source = read_decisions(str(path), Reading())
    assert source is not None
    return decisions


def test_the_last_feedback_that_stands_is_the_reward(tmp_path: Path) -> None:
    thumb = told(4, "c", "reward", "a", 0.0)
    decisions = read(
        tmp_path,
        asked("a", "a", told=2),
        told(1, "a", "reward", "a", 0.0),
        told(2, "a", "reward", "a", 0.75),
        asked("b", "b"),
        told(3, "b", "correction", "a"),
        asked("c", "a", told=3),
        thumb,
        told(5, "c", "label", "a"),
        asked("d", "b"),
        told(6, "d", "label", "b"),
        told(7, "c", "reward", "a", 0.25),
        retracted(8, told(7, "c", "reward", "a", 0.25)),
    )
    assert decisions.ids == ["a", "b", "c", "d"]
    assert decisions.rewards_N.tolist() == [0.75, 0.0, 1.0, 1.0]
    assert decisions.told_N.tolist() == [2, 3, 5, 6]
    assert [decisions.actions[decisions.action_M[place]] for place in decisions.chosen_N] == ["a", "b", "a", "b"]
    assert decisions.one(1).candidates == ["a", "b"] and decisions.one(1).scores == [0.9, 0.1]
    assert not decisions.left_out


def test_what_nobody_judged_and_what_was_no_choice_is_left_out_and_counted(tmp_path: Path) -> None:
    thumb = told(1, "a", "reward", "a")
    decisions = read(
        tmp_path,
        asked("a", "a"),
        thumb,
        asked("b", "b"),
        told(2, "b", "reward", "b"),
        asked("silent", "a", told=0),
        asked("abstained", None),
        told(3, "abstained", "label", "a"),
        retracted(4, thumb),
    )
    assert decisions.ids == ["b"]
    assert decisions.left_out == {NO_FEEDBACK: 2, NO_CHOICE: 1}


def test_a_certain_choice_could_have_been_no_other(tmp_path: Path) -> None:
    decisions = read(
        tmp_path, asked("a", "b", 1.0), told(1, "a", "reward"), asked("b", "b", 0.05), told(2, "b", "reward")
    )
    assert decisions.possible.tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    ("lines", "header", "words"),
    [
        ([], {}, "no decision with a reward"),
        ([asked("a", "a")], {}, "1 predictions without feedback"),
        ([], {"kind": "regressor"}, "chooses nothing"),
        ([asked("a", "z"), told(1, "a", "reward")], {}, "'z' is not one of its candidates"),
        ([asked("a", "a", 0.0), told(1, "a", "reward")], {}, "propensity is 0, which is not above 0"),
    ],
)
def test_logs_of_which_nothing_can_be_made_are_refused(
    tmp_path: Path, lines: list[dict[str, Any]], header: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        read(tmp_path, *lines, **header)


def test_labelled_rows_are_no_decisions(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"input": [1], "label": "a"}')
    with pytest.raises(BadInput, match="nobody decided anything"):
        read_decisions(str(tmp_path / "rows.jsonl"), Reading())


# Vowpal Wabbit


def others(tmp_path: Path, text: str, name: str = "log.txt", **how: Any) -> Decisions:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return read_decisions(str(path), Reading(**how))[0]


def test_vws_text_gives_one_less_the_cost(tmp_path: Path) -> None:
    decisions = others(tmp_path, "2:0.25:0.4 | size:3 red\n1:1:0.5 'tag | size:1\n10:0:0.1 |user age:4\n")
    assert decisions.rewards_N.tolist() == [0.75, 0.0, 1.0]
    assert decisions.propensities_N.tolist() == [0.4, 0.5, 0.1]
    assert decisions.actions == ["1", "2", "10"] and np.diff(decisions.starts_N1).tolist() == [3, 3, 3]
    assert [json.loads(data) for data in decisions.features] == [{"red": 1, "size": 3}, {"size": 1}, {"user^age": 4}]
    assert "a cost c of [0, 1] is the reward (1 - c) / 1" in decisions.notes


def test_costs_below_zero_are_rewards_with_their_sign_turned(tmp_path: Path) -> None:
    assert others(tmp_path, "1:-1:0.5 | a\n2:0:0.5 | a").rewards_N.tolist() == [1.0, 0.0]


def test_costs_of_an_unknown_range_ask_for_it(tmp_path: Path) -> None:
    text = "1:-3:0.5 | a\n2:5:0.5 | a\n2:1:0.5 | a"
    with pytest.raises(BadInput, match=r"costs from -3 to 5.*--costs LOW:HIGH"):
        others(tmp_path, text)
    decisions = others(tmp_path, text, costs=(-1.0, 5.0))
    assert decisions.rewards_N.tolist() == [1.0, 0.0, 4 / 6]
    assert "1 costs outside of that range were clipped" in decisions.notes


@pytest.mark.parametrize(
    ("line", "words"),
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
        ("1:0:0.5 | a:b", "could not convert"),
    ],
)
def test_a_bad_line_is_named_and_bearable_where_that_was_said(tmp_path: Path, line: str, words: str) -> None:
    text = f"1:0:0.5 | a\n2:0:0.5 | a\n{line}\n"
    with pytest.raises(BadInput, match=f"line 3.*{words}"):
        others(tmp_path, text, format="vw")
    kept = others(tmp_path, text, format="vw", max_bad_ratio=0.5)
    assert len(kept) == 2 and kept.left_out == {"bad lines": 1}


# dsjson


def ds(cost: float, chosen: int, chances: list[float], **more: Any) -> str:
    order = sorted(range(len(chances)), key=lambda place: place != chosen)
    told = {"_label_cost": cost, "_label_probability": chances[chosen], "_labelIndex": chosen}
    shown = {"a": [place + 1 for place in order], "p": [chances[place] for place in order]}
    return json.dumps({**told, **shown, "c": {"user": {"age": 3, "vip": True}, "_multi": [{}, {}]}, **more})


def test_dsjson_tells_every_candidates_chance(tmp_path: Path) -> None:
    text = "\n".join([ds(-1, 1, [0.2, 0.8]), ds(0, 0, [0.3, 0.7]), '{"RewardValue": 1}'])
    decisions = others(tmp_path, text)
    assert decisions.rewards_N.tolist() == [1.0, 0.0] and decisions.propensities_N.tolist() == [0.8, 0.3]
    assert decisions.logged_M is not None and decisions.logged_M.tolist() == [0.8, 0.2, 0.3, 0.7]
    assert decisions.one(0).candidates == ["2", "1"]
    assert json.loads(decisions.features[0]) == {"user.age": 3, "user.vip": "True"}


def test_chances_that_do_not_sum_to_one_are_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"chances p that sum to 0.9"):
        others(tmp_path, ds(0, 0, [0.2, 0.7]))


# CSV

CLICKS = "at,item,place,click,p,age,town\n1,7,1,1,0.5,30,A\n2,9,2,0,1.0,40,B\n3,8,1,0,0.25,50,A\n"
NAMED = Columns("item", "click", "p", "place", ("age", "town"))


def test_a_csv_has_its_columns_named_and_its_slots_apart(tmp_path: Path) -> None:
    decisions = others(tmp_path, CLICKS, "clicks.csv.gz", columns=NAMED)
    assert decisions.rewards_N.tolist() == [1, 0, 0] and decisions.slots == ["1", "2", "1"]
    assert [decisions.one(place).candidates for place in range(3)] == [["7", "8"], ["9"], ["7", "8"]]
    assert json.loads(decisions.features[0]) == {"age": 30, "place": "1", "town": "A"}


def test_without_features_named_all_other_columns_are_the_context(tmp_path: Path) -> None:
    decisions = others(tmp_path, CLICKS, "clicks.csv", columns=Columns("item", "click", "p"))
    assert set(json.loads(decisions.features[0])) == {"at", "place", "age", "town"}


def test_a_csv_whose_columns_are_not_named_or_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="say which columns are which with --action"):
        others(tmp_path, CLICKS, "clicks.csv")
    with pytest.raises(BadInput, match="no column 'reward'; it has at, item"):
        others(tmp_path, CLICKS, "clicks.csv", columns=Columns("item", "reward", "p"))
    with pytest.raises(BadInput, match=r"line 2: its reward is 30, which does not lie in \[0, 1\]"):
        others(tmp_path, CLICKS, "clicks.csv", columns=Columns("item", "age", "p"), max_bad_ratio=0.0)
