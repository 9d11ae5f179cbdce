"""Tuned here, tested there: the halves share nothing, and a choice is made without the half that judges it."""

import ast
import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks import heldout
from benchmarks.changes import Change, Constant, parse_constant
from benchmarks.halves import (
    INTENT_HALVES,
    INTENTS,
    JUDGE_DOMAINS,
    NUMBER_HALVES,
    ROW_HALVES,
    SCENARIOS,
    TUNE_DOMAINS,
    Half,
    Halves,
    draw_scenarios,
    read_domains,
)
from benchmarks.heldout import Judgement, run, score_once
from benchmarks.tasks import CHANGE_HALVES, Options, Scores, Task
from benchmarks.tuned_defaults import SETTINGS, OptionOf, Scaled, Setting
from online.models import create

PAGE = Path(__file__).parents[2] / "benchmarks/heldout.md"

# halves


def list_arguments(read: Callable[[], Any]) -> list[Any]:
    """Everything that a set is made with: nested calls, tables and their values."""
    if not isinstance(read, partial):
        return [*filter(callable, [getattr(read, "__wrapped__", None)])]
    return [(read.func, *map(str, read.args), *map(str, read.keywords.items()))]


def find_seeds(value: Any) -> set[int]:
    if isinstance(value, partial):
        return find_seeds([*value.args, value.keywords])
    if isinstance(value, Mapping):
        own = {number for name, number in value.items() if "seed" in name and isinstance(number, int)}
        return own | find_seeds([*value.values()])
    if isinstance(value, (list, tuple)):
        return set().union(*map(find_seeds, value))
    return set()


@pytest.mark.parametrize("halves", [ROW_HALVES, NUMBER_HALVES], ids=["rows", "numbers"])
def test_no_seed_is_in_both_halves(halves: Halves[Any]) -> None:
    tune, judge = (find_seeds([*half.sets.values()]) for half in (halves.tune, halves.judge))
    assert len(tune) >= 7
    assert len(judge) >= 7
    assert not tune & judge


@pytest.mark.parametrize("halves", [ROW_HALVES, NUMBER_HALVES, CHANGE_HALVES], ids=["rows", "numbers", "changes"])
def test_no_set_is_made_alike_in_both_halves(halves: Halves[Any]) -> None:
    tune, judge = (
        [made for read in half.sets.values() for made in list_arguments(read)] for half in (halves.tune, halves.judge)
    )
    assert tune
    assert not {made for made in judge if made in tune}


def test_each_real_dataset_is_in_one_half() -> None:
    generators = {name for half in (ROW_HALVES.tune, NUMBER_HALVES.tune) for name in half.sets}
    others = {name for half in (ROW_HALVES.judge, NUMBER_HALVES.judge) for name in half.sets}
    real = {
        "wine",
        "yeast 3",
        "bananas",
        "chick weights",
        "breast cancer",
        "phishing",
        "image segments",
        "Trump approval",
    }
    assert real <= generators | others
    assert not real & generators & others


def test_no_intent_is_in_both_halves(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLINE_SHARED_DATA", str(shared_data))
    domains = read_domains()
    tune, judge = ([intent for name in names for intent in domains[name]] for names in (TUNE_DOMAINS, JUDGE_DOMAINS))
    assert {*TUNE_DOMAINS} | {*JUDGE_DOMAINS} == {*domains}
    assert len({*tune}) == len({*judge}) == 5 * INTENTS
    assert not {*tune} & {*judge}
    assert not INTENT_HALVES.tune.sets.keys() & INTENT_HALVES.judge.sets.keys()


def test_no_scenario_of_the_chit_chat_is_in_both_halves() -> None:
    drawn = [number for place in range(6) for number in draw_scenarios(place)]
    assert sorted(drawn) == [*range(SCENARIOS)]


# choosing and judging


@dataclass
class Fake:
    """A setting whose shipped value is 1, on two sets a half. gains: of the value 2, by set."""

    gains: Mapping[str, float]
    read: list[tuple[str, str, float]] = field(default_factory=list)

    @property
    def shipped(self) -> float:
        return 1.0

    def change(self, value: float) -> Change:
        return Change({"value": value})

    def setting(self) -> Setting:
        halves = Halves.of({"a": dict, "b": dict}, {"c": dict, "d": dict})
        return Setting("fake", self, (0.0, 2.0), Task("fake", halves, score_nothing))

    def score(self, setting: Setting, value: Any, half: Half[Any], name: str) -> float:
        self.read.append((half.name, name, value))
        return 50.0 + (self.gains[name] if value == 2 else -9.0 if value == 0 else 0.0)


def score_nothing(data: Any, options: Options, seed: int) -> Scores:
    raise AssertionError("no set is measured here")


def judge_fake(a: float, b: float, c: float, d: float) -> tuple[Judgement, Fake]:
    fake = Fake({"a": a, "b": b, "c": c, "d": d})
    return run([fake.setting()], fake.score)[0], fake


def test_a_value_that_is_better_on_both_halves_is_reported_as_such() -> None:
    judgement, _ = judge_fake(2.0, 4.0, 3.0, 3.1)
    assert (judgement.choice.chosen, judgement.verdict) == (2.0, "shipped is worse")
    assert judgement.difference == pytest.approx(-3.05)


def test_a_value_that_is_better_only_where_it_was_chosen_is_reported_as_worse() -> None:
    assert judge_fake(2.0, 4.0, -3.0, -3.1)[0].verdict == "shipped is better"


def test_a_value_that_is_better_on_one_judging_set_alone_shows_no_difference() -> None:
    assert judge_fake(2.0, 4.0, -3.0, 3.0)[0].verdict == "no difference shown"


def test_the_shipped_value_is_chosen_among_equals() -> None:
    judgement, _ = judge_fake(0.0, 0.0, 5.0, 5.0)
    assert judgement.verdict == "chosen again"
    assert [*judgement.differences.values()] == [0.0, 0.0]


def test_a_setting_that_no_score_depends_on_is_reported_as_such() -> None:
    fake = Fake({})
    judgement = run([fake.setting()], lambda setting, value, half, name: 50.0)[0]
    assert judgement.verdict == "changes nothing here"


def test_nothing_of_the_judging_half_is_read_before_the_choice_and_no_other_value_is_judged() -> None:
    _, fake = judge_fake(2.0, 4.0, 3.0, 3.1)
    halves = [half for half, _, _ in fake.read]
    assert halves == sorted(halves, reverse=True), "all of tune, then all of judge"
    assert {value for half, _, value in fake.read if half == "judge"} == {1.0, 2.0}


def test_the_choices_of_all_settings_come_before_the_first_judgement() -> None:
    fake = Fake({"a": 2.0, "b": 2.0, "c": 2.0, "d": 2.0})
    run([fake.setting(), fake.setting()], fake.score)
    halves = [half for half, _, _ in fake.read]
    assert halves == sorted(halves, reverse=True)


# settings


@pytest.mark.parametrize("setting", SETTINGS, ids=[each.name for each in SETTINGS])
def test_a_change_is_in_force_and_put_back(setting: Setting) -> None:
    shipped = setting.target.shipped
    assert setting.change(shipped) == Change(setting.base)
    assert len(setting.grid) >= 3
    for value in setting.grid:
        change = setting.change(value)
        if isinstance(setting.target, OptionOf):
            needed = {} if setting.target.kind == "regressor" else {"input": "vector", "size": 2}
            create(setting.target.kind, {**({} if setting.target.kind == "ranker" else needed), **change.options})
        before = {key: read_constant(key) for key in change.constants}
        with change.in_force():
            assert {key: read_constant(key) for key in change.constants} == change.constants
        assert {key: read_constant(key) for key in change.constants} == before
        assert value == shipped or change.options != setting.base or before != change.constants


def read_constant(key: tuple[str, str]) -> Any:
    return Constant(*key).shipped


def test_a_constant_of_the_command_line_has_the_type_of_the_shipped_one() -> None:
    place = ("online.models.ranker.exploration", "NEAR_WEIGHT")
    assert parse_constant("models.ranker.exploration.NEAR_WEIGHT=1") == Change(constants={place: 1.0})


@pytest.mark.parametrize(
    "text", ["", "COMPARED=5", "models.ranker.exploration.NONE=5", "models.ranker.exploration.COMPARED=x"]
)
def test_a_constant_that_does_not_exist_or_fit_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a constant below `online`"):
        parse_constant(text)


# the list of defaults in the manual


def read_list() -> dict[str, tuple[str, str]]:
    """Each default of the manual's list: its value, and whether it was tried."""
    rows = re.findall(r"^\| `([\w.: ]+)` \| (.+?) \| .* \| (yes|no) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: (value, tried) for name, value, tried in rows}


def find_target(name: str) -> OptionOf | Constant:
    if ": " in name:
        return OptionOf(*name.split(": "))
    module, last = name.removesuffix(".LIMIT").removesuffix(".JUMP").rsplit(".", 1)
    return Constant(f"online.{module}", name.removeprefix(f"{module}.") if last == "Cusum" else last)


def test_the_list_of_the_manual_has_the_values_of_the_code() -> None:
    listed = read_list()
    assert len(listed) > 80
    shown = {name: value for name, (value, _) in listed.items() if value != "see there"}
    assert {name: ast.literal_eval(value) for name, value in shown.items()} == {
        name: find_target(name).shipped for name in shown
    }


def test_the_list_of_the_manual_names_what_is_tried() -> None:
    targets = {each.target.constant if isinstance(each.target, Scaled) else each.target for each in SETTINGS}
    assert {find_target(name) for name, (_, tried) in read_list().items() if tried == "yes"} == targets


# figures that are kept


def test_a_figure_is_measured_once_for_each_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = list[Any]()

    def score(data: Any, options: Options, seed: int) -> Scores:
        measured.append(options)
        return {"points": 1.5}

    monkeypatch.setattr(heldout, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(heldout, "digest_code", lambda: "one")
    halves: Halves[Any] = Halves.of({"a": dict}, {"b": dict})
    setting = Setting("fake", Fake({}), (2.0,), Task("fake", halves, score))
    assert [score_once(setting, value, halves.tune, "a") for value in (1.0, 2.0, 1.0)] == [1.5, 1.5, 1.5]
    assert measured == [{}, {"value": 2.0}]
    monkeypatch.setattr(heldout, "digest_code", lambda: "two")
    score_once(setting, 1.0, halves.tune, "a")
    assert len(measured) == 3
