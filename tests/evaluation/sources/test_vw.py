"""Vowpal Wabbit's text and dsjson, of one line and of many: what is read, what is left out, what is bad, and why."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from online.errors import BadInput
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import Replay
from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.sources.arrival import LabelDelay
from online.evaluation.sources.log_format import LoggedEvent, LoggedPrediction
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions
from online.evaluation.sources.vw_survey import MAX_NAMES
from online.plugins.off_policy.decisions import Decisions
from online.plugins.off_policy.logged_decisions import CsvColumns, DecisionReadOptions, read_decision_log
from online.plugins.off_policy.policy_evaluation import Evaluation, EvaluationOptions, evaluate
from online.plugins.off_policy.scorers import Scorers
from tests.support import run_online

# of Vowpal Wabbit's wiki: what is shared, two decisions, one without a label, and lines that begin with a blank
WIKI = """shared | s_1 s_2
0:1.0:0.5 | a_1 b_1 c_1
 | a_2 b_2 c_2
 | a_3 b_3 c_3

 | b_1 c_1 d_1
0:0.25:0.4 | b_2 c_2 d_2

 | a_1 b_1 c_1
 | a_3 b_3 c_3

"""


def quiet(*progress: Any) -> None:
    pass


def read(tmp_path: Path, text: str, name: str = "log.txt", **how: Any) -> Decisions:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return read_decision_log(str(path), DecisionReadOptions(**how))[0]


def candidates(decisions: Decisions) -> list[list[str]]:
    return [list(decisions.one(place).candidates) for place in range(len(decisions))]


def block(*lines: str) -> str:
    return "\n".join([*lines, "", ""])


# many lines


def test_a_block_is_a_decision_among_its_lines(tmp_path: Path) -> None:
    decisions = read(tmp_path, WIKI)
    assert decisions.rewards_N.tolist() == [0.0, 0.75] and decisions.propensities_N.tolist() == [0.5, 0.4]
    assert candidates(decisions) == [["a_1 b_1 c_1", "a_2 b_2 c_2", "a_3 b_3 c_3"], ["b_1 c_1 d_1", "b_2 c_2 d_2"]]
    chosen = [decisions.actions[action] for action in decisions.action_M[decisions.chosen_N]]
    assert chosen == ["a_1 b_1 c_1", "b_2 c_2 d_2"]
    assert [json.loads(data) for data in decisions.features] == [{"s_1": 1, "s_2": 1}, {}]
    assert decisions.ids == ["1", "6"], "the number of its first line"


def test_decisions_without_a_cost_are_counted_and_are_not_bad(tmp_path: Path) -> None:
    assert read(tmp_path, WIKI).left_out == {"decisions without a cost": 1}
    assert read(tmp_path, "1:0:0.5 | a\n2:1:0.5 | a\n| a\n1 2 | a\n").left_out == {"decisions without a cost": 2}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.rstrip("\n"),
        lambda text: "\n\n" + text.replace("\n\n", "\n \n\n\n"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("shared |", "shared|"),
    ],
    ids=["no last empty line", "many empty lines", "of Windows", "shared touches the bar"],
)
def test_blocks_may_be_separated_in_several_ways(tmp_path: Path, change: Any) -> None:
    plain, changed = read(tmp_path, WIKI), read(tmp_path, change(WIKI), "changed.txt")
    assert candidates(changed) == candidates(plain)
    assert changed.features == plain.features and changed.rewards_N.tolist() == plain.rewards_N.tolist()


def test_compressed_text_is_read(tmp_path: Path) -> None:
    assert candidates(read(tmp_path, WIKI, "log.vw.gz")) == candidates(read(tmp_path, WIKI))


BAD_BLOCKS = [
    (("shared | x",), "line 1: `shared` without a line for any action"),
    (("shared | x", "0:0:0.5 | a", "shared | y", "| b"), "line 3: `shared` stands first, behind an empty line"),
    (("shared | x", "0:0:0.5 | a", "1:1:0.5 | b"), "line 3: a second action with a cost; one was chosen"),
    (("shared | x", "0:0:0.5 | a", "no bar"), "line 3: expected `action:cost:probability | features`"),
    (("shared | x", "0:0.5 | a", "| b"), "line 2: 0:0.5 is a cost without its probability"),
    (("shared | x", "0:x:0.5 | a", "| b"), "line 2: 'x' is not a number"),
    (("shared | x", "0:inf:0.5 | a", "| b"), "line 2: 'inf' is not finite"),
    (("shared | x", "0:0:0 | a", "| b"), "line 2: its propensity is 0"),
    (("shared | x", "0:0:0.5:9 | a", "| b"), "line 2: expected"),
    (("shared | x:5y", "0:0:0.5 | a", "| b"), "line 1: its feature 'x' has the value '5y'"),
    (("shared | x", "0:0:0.5 one two | a", "| b"), "line 2: expected one tag before the bar, not 'one two "),
    (("shared | x:nan", "0:0:0.5 | a", "| b"), "line 1: has NaN"),
]


@pytest.mark.parametrize(("lines", "words"), BAD_BLOCKS, ids=[words for _, words in BAD_BLOCKS])
def test_a_bad_block_is_one_bad_line_that_is_named(tmp_path: Path, lines: tuple[str, ...], words: str) -> None:
    text = block(*lines) + WIKI
    with pytest.raises(BadInput) as caught:
        read(tmp_path, text)
    assert f"log.txt, {words}" in str(caught.value)
    kept = read(tmp_path, text, max_bad_ratio=0.5)
    assert len(kept) == 2 and kept.left_out["bad lines"] == 1


def test_several_decisions_in_one_block_are_refused_as_a_whole(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"several decisions at once \(ccb\), which are not read"):
        read(tmp_path, "ccb shared | s\nccb action | a\nccb slot 0:1:0.5 | x\n\n")


# what actions are called


def test_actions_are_identified_by_their_tags_if_all_have_one(tmp_path: Path) -> None:
    tagged = block("shared | s", "0:0:0.5 'one| a", "two| b", "'three | c")
    decisions = read(tmp_path, tagged * 2)
    assert (
        candidates(decisions) == [["one", "two", "three"]] * 2 and "actions are known by their tag" in decisions.notes
    )
    half = read(tmp_path, tagged + block("shared | s", "0:0:0.5 one| a", "| b"))
    assert candidates(half) == [["a", "b", "c"], ["a", "b"]]


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        ([("0:0:0.5 | a", "| a")], "the same features"),
        ([("0:0:0.5 | a", "|")], "none"),
        ([("0:0:0.5 | price:9", f"| price:{n}") for n in range(10, MAX_NAMES + 20)], "too many"),
    ],
)
def test_actions_with_equal_features_are_identified_by_their_position(
    tmp_path: Path, blocks: list[tuple[str, ...]], why: str
) -> None:
    decisions = read(tmp_path, "".join(block("shared | s", *lines) for lines in blocks))
    assert decisions.actions == ["1", "2"], why
    assert "actions are known by their position" in decisions.notes


def test_what_identifies_an_action_can_be_chosen(tmp_path: Path) -> None:
    assert candidates(read(tmp_path, WIKI, columns=CsvColumns(action="position"))) == [["1", "2", "3"], ["1", "2"]]
    with pytest.raises(BadInput, match="line 1: its actions cannot be distinguished by their tag"):
        read(tmp_path, WIKI, columns=CsvColumns(action="tag"))
    with pytest.raises(BadInput, match="not by 'colour'"):
        read(tmp_path, WIKI, columns=CsvColumns(action="colour"))


# one line


def test_a_line_may_list_the_other_actions(tmp_path: Path) -> None:
    decisions = read(tmp_path, "3:0.2:0.4 1 7 'tag | a\n1:1:1.0 2:2 3:3 | b\n2:0:0.5 | c\n")
    assert candidates(decisions) == [["3", "1", "7"], ["1", "2", "3"], ["2"]]
    assert decisions.rewards_N.tolist() == [0.8, 0.0, 1.0]


def test_features_without_names_are_named_by_their_positions(tmp_path: Path) -> None:
    decisions = read(tmp_path, "1:0:0.5 |f :3 :4\n2:1:0.5 |f:2 x :4\n")
    assert [json.loads(data) for data in decisions.features] == [{"f^0": 3, "f^1": 4}, {"f^x": 2, "f^1": 8}]


def test_a_cost_without_an_action_is_a_bad_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"line 2: :0:0\.5 is the cost of no action"):
        read(tmp_path, "1:0:0.5 | a\n:0:0.5 | a\n")


def test_an_action_is_the_same_however_its_number_is_written(tmp_path: Path) -> None:
    decisions = read(tmp_path, "1:0:0.5 | a\n+1:1:0.5 | a\n1.0:1:0.5 | a\n2:1:0.5 | a\n")
    assert decisions.actions == ["1", "2"]


def test_labelled_rows_are_no_decisions(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds labelled rows, not decisions; replay them instead"):
        read(tmp_path, "1 | a\n2 | b\n")


# dsjson


def ds(number: int, **more: Any) -> str:
    label_fields = {"_label_cost": -0.5, "_label_probability": 0.5, "_labelIndex": 1, "a": [2, 1], "p": [0.5, 0.5]}
    return json.dumps({**label_fields, "c": {"input": number, "_multi": [{"x": 1}, {"x": 2}]}, **more})


def test_lines_marked_as_not_learned_are_left_out_and_substitutes_are_reported(tmp_path: Path) -> None:
    decisions = read(tmp_path, "\n".join([ds(1, pdrop=0.9), ds(2, _skipLearn=True), ds(3)]))
    assert len(decisions) == 2 and decisions.left_out == {"lines with _skipLearn": 1}
    assert any(note.startswith("1 lines that stand for others") for note in decisions.notes)
    assert json.loads(decisions.features[0]) == {"input": 1}


def shuffled(number: int, items: list[dict[str, Any]], best: str) -> str:
    """A decision whose items stand in an order of its own; half of the time the best of its context was shown."""
    draw = random.Random(number)
    order = draw.sample(range(len(items)), len(items))
    multi = [items[place] for place in order]
    shown = draw.randrange(len(items))
    cost = 0.0 if best in multi[shown].values() else 1.0
    chances = [1 / len(items)] * len(items)
    context = {"_multi": multi, "when": best}
    fields = {"_label_cost": cost, "_label_probability": chances[0], "_labelIndex": shown}
    return json.dumps({**fields, "a": [*range(1, len(items) + 1)], "p": chances, "c": context})


@pytest.mark.parametrize("key", ["_tag", "kind"])
def test_an_action_of_dsjson_is_known_by_its_tag_or_content_wherever_it_stands(tmp_path: Path, key: str) -> None:
    items = [{key: name, "weight": 1} for name in ACTIONS]
    (tmp_path / "log.dsjson").write_text("\n".join(shuffled(n, items, ACTIONS[n % 3]) for n in range(600)))
    (greedy,) = judged(tmp_path / "log.dsjson", "greedy:ridge").policies
    assert greedy.estimates["snips"].value > 0.95, "a third is right by chance, and by position"


def test_the_key_of_an_action_of_dsjson_is_reported_and_can_be_chosen(tmp_path: Path) -> None:
    items = [{"_tag": name} for name in ACTIONS]
    text = "\n".join(shuffled(n, items, ACTIONS[n % 3]) for n in range(6))
    tagged = read(tmp_path, text)
    assert sorted(tagged.actions) == sorted(ACTIONS) and "actions are known by their tag" in tagged.notes
    assert read(tmp_path, text, columns=CsvColumns(action="position")).actions == ["1", "2", "3"]


UNUSABLE = [
    ({"a": [None, 1]}, "it has an empty action in a, None"),
    ({"a": [" ", 1]}, "it has an empty action in a, ' '"),
    ({"a": [3, 1]}, "its action 3 is none of the 2 in _multi"),
    ({"a": 1}, "its actions a are 1, which is no list"),
    ({"_labelIndex": 4}, "its choice '5' is not one of its actions a"),
    ({"p": [1.5, -0.5]}, "2 chances p that sum to 1"),
    ({"_outcomes": []}, "it holds several decisions at once"),
]


@pytest.mark.parametrize(("change", "words"), UNUSABLE, ids=[words for _, words in UNUSABLE])
def test_an_unusable_decision_of_dsjson_is_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    text = "\n".join([ds(1), ds(2, **change), ds(3)])
    with pytest.raises(BadInput) as caught:
        read(tmp_path, text)
    assert f"log.txt, line 2: {words}" in str(caught.value)
    assert len(read(tmp_path, text, max_bad_ratio=0.5)) == 2


def test_outcomes_without_their_decision_are_counted(tmp_path: Path) -> None:
    decisions = read(tmp_path, ds(1) + '\n{"RewardValue": 1}\n')
    assert decisions.left_out == {"outcomes that were logged without their decision": 1}


def test_chances_may_be_rounded_to_the_digits_that_they_are_printed_with(tmp_path: Path) -> None:
    printed = [0.083] * 12  # a twelfth each, which sums to .996
    fields = {"a": [*range(1, 13)], "p": printed, "_label_probability": 0.083}
    multi = {"_multi": [{"x": place} for place in range(12)]}
    decisions = read(tmp_path, "\n".join(ds(n, **fields, c=multi) for n in range(60)))
    result = evaluate(decisions, ["logged", "uniform"], Scorers(decisions, quiet), EvaluationOptions(), quiet)
    assert [policy.warnings for policy in result.policies] == [[], []]


# a world in which it is known what is best, logged in three ways

ACTIONS = ("tea", "soup", "ice")
BEST = {"morning": "tea", "noon": "soup", "night": "ice"}


def world(count: int = 600, seed: int = 0) -> list[tuple[str, int, float, float]]:
    """(when, which was chosen, its cost, its probability); half of the time nothing is known, and each is as likely."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        when = draw.choice([*BEST])
        place = draw.choices(range(3), weights=(0.5, 0.3, 0.2))[0]
        cost = 0.0 if draw.random() < (0.9 if ACTIONS[place] == BEST[when] else 0.1) else 1.0
        made.append((when, place, cost, (0.5, 0.3, 0.2)[place]))
    return made


def on_one_line(when: str, place: int, cost: float, chance: float) -> str:
    others = [f"{ACTIONS[other]}:{cost}:{chance}" if other == place else ACTIONS[other] for other in range(3)]
    return f"{' '.join(others)} |day {when} at:1.5\n"


def on_many_lines(when: str, place: int, cost: float, chance: float) -> str:
    labels = [f"0:{cost}:{chance} " if other == place else "" for other in range(3)]
    return block(f"shared |day {when} at:1.5", *(f"{labels[n]}{ACTIONS[n]}|item x:{n}" for n in range(3)))


def as_dsjson(when: str, place: int, cost: float, chance: float) -> str:
    label_fields = {"_label_cost": cost, "_label_probability": chance, "_label_Action": ACTIONS[place]}
    context = {"day^at": 1.5, f"day^{when}": 1.0}
    return json.dumps({**label_fields, "a": list(ACTIONS), "p": [0.5, 0.3, 0.2], "c": context}) + "\n"


WRITERS = {"one.vw": on_one_line, "many.txt": on_many_lines, "log.dsjson": as_dsjson}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("world")
    for name, write in WRITERS.items():
        (folder / name).write_text("".join(write(*each) for each in world()))
    return {name: folder / name for name in WRITERS}


def judged(path: Path, *policies: str) -> Evaluation:
    decisions, source = read_decision_log(str(path), DecisionReadOptions())
    return evaluate(decisions, policies, Scorers(decisions, quiet, source), EvaluationOptions(resamples=100), quiet)


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_decisions_are_evaluated_alike_in_every_format(logs: dict[str, Path], name: str) -> None:
    policies = ("uniform", "fixed:soup", "greedy:ridge")
    first, found = judged(logs["one.vw"], *policies), judged(logs[name], *policies)
    assert found.decisions == 600 and found.mean_reward == first.mean_reward
    for one, other in zip(found.policies, first.policies, strict=True):
        assert one.overlap == other.overlap and one.anytime == other.anytime
        for (
            estimator,
            estimate,
        ) in one.estimates.items():  # but for how far it may be off: only dsjson tells all chances
            assert (estimate.value, estimate.bootstrap) == (
                other.estimates[estimator].value,
                other.estimates[estimator].bootstrap,
            )


def test_a_model_that_learns_from_the_log_is_evaluated_on_it(logs: dict[str, Path]) -> None:
    uniform, greedy = judged(logs["many.txt"], "uniform", "greedy:classifier").policies
    assert uniform.estimates["dr"].bootstrap[0] < (0.9 + 0.1 + 0.1) / 3 < uniform.estimates["dr"].bootstrap[1]
    assert greedy.estimates["dr"].bootstrap[0] > 0.6  # at best 0.9, and it knew nothing at the beginning


def replayed(path: Path, kind: str = "classifier", **reads: Any) -> ReplayReport:
    replay = Replay(open_source(str(path), ReadOptions(**reads)), CandidateSpec(kind))
    replay.run()
    return replay.report()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", WRITERS)
def test_the_same_decisions_are_replayed_alike_in_every_format(logs: dict[str, Path], name: str) -> None:
    first, found = replayed(logs["one.vw"]), replayed(logs[name])
    assert found.examples == found.events == 600
    assert (found.figures, found.state_sha256) == (first.figures, first.state_sha256)
    served = np.mean([cost == 0 for _, _, cost, _ in world()])
    assert found.figures["served_right"] == round(served * 600) and found.figures["served_rated"] == 600


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["classifier", "knn", "logistic", "river", "tower", "best_of"])
def test_every_classifier_replays_decisions_and_learns_from_rewards_alone(logs: dict[str, Path], kind: str) -> None:
    report = replayed(logs["many.txt"], kind)
    assert report.events == 600 and report.bad == 0
    assert report.figures["accuracy"] is not None


def test_predictions_and_rewards_are_the_logged_decisions_and_costs(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(WIKI)
    lines = list(open_source(str(tmp_path / "log.txt")).lines())
    predictions = [line for line in lines if isinstance(line, LoggedPrediction)]
    label_fields = [line.event for line in lines if isinstance(line, LoggedEvent)]
    assert [(line.id, line.choice, line.propensity) for line in predictions] == [
        ("1", "a_1 b_1 c_1", 0.5),
        ("6", "b_2 c_2 d_2", 0.4),
    ]
    assert predictions[0].instance == {"s_1": 1.0, "s_2": 1.0} and predictions[1].instance == {}
    assert [(event.kind, event.label, event.reward) for event in label_fields] == [
        ("reward", "a_1 b_1 c_1", 0.0),
        ("reward", "b_2 c_2 d_2", 0.75),
    ]


def test_rewards_can_come_later(logs: dict[str, Path]) -> None:
    at_once, later = replayed(logs["one.vw"]), replayed(logs["one.vw"], delay=LabelDelay(rows=50))
    assert at_once.state_sha256 == later.state_sha256 and at_once.figures != later.figures


def test_the_range_of_the_costs_is_required_and_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "log.vw"
    path.write_text("1:-3:0.5 | a\n2:5:0.5 | a\n2:1:0.5 | a")
    with pytest.raises(BadInput, match=r"costs from -3 to 5.*--costs LOW:HIGH"):
        open_source(str(path))
    label_fields = [
        line for line in open_source(str(path), ReadOptions(costs=(-1.0, 5.0))).lines() if isinstance(line, LoggedEvent)
    ]
    assert [line.event.reward for line in label_fields] == [1.0, 0.0, 4 / 6]


def test_an_invalid_block_counts_as_a_bad_line_of_the_replay(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(block("shared | x", "0:x:0.5 | a", "| b") + WIKI)
    with pytest.raises(BadInput, match=r"log.txt, line 2: 'x' is not a number"):
        replayed(path)
    replay = Replay(open_source(str(path)), CandidateSpec("classifier"), max_bad_ratio=0.5)
    replay.run()
    assert (replay.report().examples, replay.report().bad) == (2, 1)


@pytest.mark.parametrize(("kind", "words"), [("regressor", "makes no choices"), ("ranker", "a ranker replays a log")])
def test_models_that_choose_no_class_are_refused(logs: dict[str, Path], kind: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        replayed(logs["one.vw"], kind)


def test_replay_and_evaluate_read_them(logs: dict[str, Path]) -> None:
    done = run_online("evaluate", str(logs["many.txt"]), "--policy", "fixed:soup", "--estimator", "ips", "--json")
    assert json.loads(done.stdout)["decisions"] == 600, done.stderr
    done = run_online("replay", str(logs["many.txt"]), "--model", "classifier", "--costs", "0:2", "--json")
    figures = json.loads(done.stdout)["results"][0]["figures"]
    assert figures["served_right"] == 600, "half of the range is what a cost of 1 takes"
