"""Off-policy estimates: by hand, against a truth that is known, and refused where the log cannot know."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from online.errors import BadInput
from online.evaluation.bandit_formats import Columns, Reading, read_decisions
from online.evaluation.decisions import Decision, Decisions, Floats, Gathering
from online.evaluation.estimators import Weighed, estimates, overlap, terms_of, weighed
from online.evaluation.formats import Bad
from online.evaluation.off_policy import Asks, Evaluation, evaluate
from online.evaluation.outcomes import fitted, folds, growing, prequential
from online.evaluation.scorers import Scorers, Version
from online.evaluation.targets import Chances, chances
from online.models import create
from tests.support import Service, run_online

ROOT = Path(__file__).parents[2]
DESK = ROOT / "data" / "desk.jsonl"


def quiet(what: str, done: int, of: int) -> None:
    """No bar."""


def decisions_of(
    rows: Sequence[tuple[str, float, float]], actions: str = "ab", contexts: Sequence[Sequence[float]] = ()
) -> Decisions:
    """(choice, propensity, reward) each; the first candidate scores best. contexts: vectors."""
    gathering = Gathering(input="vector" if contexts else "")
    for place, (choice, propensity, reward) in enumerate(rows):
        scored = [(name, 1.0 / (1 + rank)) for rank, name in enumerate(actions)]
        features = np.array(contexts[place], np.float64).tobytes() if contexts else b""
        gathering.add(str(place), scored, choice, propensity, reward, features)
    return gathering.made("test", Bad())


def target(policy: str, decisions: Decisions) -> Chances:
    return chances(policy, decisions, Scorers(decisions, quiet))


# by hand

ROWS = [("a", 0.5, 1.0), ("b", 0.25, 0.5), ("a", 0.8, 0.0), ("b", 0.2, 1.0)]


def by_hand() -> Weighed:
    """The target takes a with 0.75; q is 0.6 for a and 0.2 for b, and 0.5 and 0.3 by the direct method's models."""
    decisions = decisions_of(ROWS)
    chances_M = np.array([0.75, 0.25] * 4)
    before_M, others_M = np.array([0.6, 0.2] * 4), np.array([0.5, 0.3] * 4)
    return weighed(decisions, chances_M, chances_M[decisions.chosen_N], before_M, others_M)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ips", (1.5 * 1 + 1 * 0.5 + 0 + 1.25 * 1) / 4),
        ("clipped", (1.2 * 1 + 1 * 0.5 + 0 + 1.2 * 1) / 4),
        ("snips", (1.5 + 0.5 + 1.25) / (1.5 + 1 + 0.9375 + 1.25)),
        ("dm", 0.75 * 0.5 + 0.25 * 0.3),
        ("dr", 0.5 + (1.5 * 0.4 + 1 * 0.3 - 0.9375 * 0.6 + 1.25 * 0.8) / 4),
        ("switch", 0.5 + (1 * 0.3 - 0.9375 * 0.6) / 4),
        ("replay", (0.75 + 0.25 * 0.5 + 0.25) / (0.75 + 0.25 + 0.75 + 0.25)),
    ],
)
def test_every_estimator_is_its_formula(name: str, value: float) -> None:
    each = by_hand()
    assert each.weights_N.tolist() == pytest.approx([1.5, 1.0, 0.9375, 1.25])
    assert terms_of(name, each, clip=1.2).value == pytest.approx(value)


def test_weights_beyond_the_threshold_are_clipped_or_left_to_the_model() -> None:
    """One of 5,000 with weight 100, where the root of the count is 71."""
    weights_N = np.ones(5_000)
    weights_N[7] = 100.0
    rewards_N = (np.arange(5_000) % 2).astype(np.float64)
    half = np.full(5_000, 0.5)
    each = Weighed(rewards_N, weights_N, weights_N, 100.0, half, half, half)
    values = {name: terms_of(name, each, 0.0).values_N[7] for name in ("ips", "clipped", "dr", "switch")}
    assert values == pytest.approx({"ips": 100, "clipped": math.sqrt(5_000), "dr": 0.5 + 50, "switch": 0.5})
    assert terms_of("switch", each, 0.0).values_N[9] == 1.0 and terms_of("switch", each, 200.0).values_N[7] == 50.5


def test_overlap_is_what_it_says() -> None:
    decisions = decisions_of([("a", 0.5, 1.0), ("b", 0.25, 0.5), ("a", 1.0, 0.0), ("b", 0.2, 1.0)])
    always_b = target("fixed:b", decisions)
    found = overlap(decisions, always_b.chances_M, always_b.agreeing_N)
    assert found.ess == pytest.approx((4 + 5) ** 2 / (16 + 25)) and found.largest_weight == 5
    assert found.mean_weight == 9 / 4 and found.followed == 0.5
    assert found.covered == 0.75  # in the third a was certain


# targets


def test_targets_choose_as_they_say() -> None:
    decisions = decisions_of([("a", 0.5, 1.0), ("c", 0.25, 0.5)], actions="abc")

    def of(policy: str) -> list[float]:
        return list(target(policy, decisions).chances_M[3:])

    assert of("uniform") == pytest.approx([1 / 3] * 3)
    assert of("fixed:b") == [0, 1, 0]
    assert of("greedy:logged-scores") == [1, 0, 0]
    assert of("epsilon:logged-scores:0.3") == pytest.approx([0.8, 0.1, 0.1])
    odds = [math.exp(score / 0.5) for score in (1, 1 / 2, 1 / 3)]
    assert of("softmax:logged-scores:0.5") == pytest.approx([odd / sum(odds) for odd in odds])
    assert target("logged", decisions).agreeing_N.tolist() == [0.5, 0.25]
    thompson = of("thompson:ridge")
    assert sum(thompson) == pytest.approx(1) and min(thompson) > 0.28  # nothing is known: all alike
    assert thompson == of("thompson:ridge"), "its draws are seeded by the decision"


def test_candidates_that_a_model_does_not_score_come_last() -> None:
    decisions = decisions_of([("a", 0.5, 1.0)] * 2, actions="abc")
    decisions.scores_M[:] = [math.nan, 0.1, 0.3, math.nan, math.nan, math.nan]
    found = target("greedy:logged-scores", decisions).chances_M.tolist()
    assert found == pytest.approx([0, 0, 1, 1 / 3, 1 / 3, 1 / 3])


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("best", "there is no policy 'best'; one of logged"),
        ("fixed:z", "no decision of this log had it"),
        ("greedy:oracle", "there is no model 'oracle'"),
        ("greedy:ranker", "learns by replaying a log, and a CSV cannot be replayed"),
        ("greedy:version:3", "a version is a number, and scores a log of its own service"),
        ("epsilon:ridge:2", r"takes a share of \[0, 1\], not '2'"),
        ("softmax:ridge:0", "takes a temperature above 0"),
        ("softmax:ridge:x", "takes a temperature above 0"),
        ("thompson:logged-scores", "only ridge says how unsure it is"),
        ("python:nowhere:f", "cannot be imported"),
        ("python:tests.evaluation.test_off_policy:DESK", "is no function"),
        ("python:tests.evaluation.test_off_policy:too_much", "sum to 1, not 1.5"),
        ("python:tests.evaluation.test_off_policy:no_dict", "expected {candidate: chance}"),
    ],
)
def test_policies_that_there_are_not_are_refused(policy: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        target(policy, decisions_of(ROWS))


def too_much(decision: Decision) -> dict[str, float]:
    return {"a": 1.0, "b": 0.5}


def no_dict(decision: Decision) -> list[float]:
    return [1.0]


def second(decision: Decision) -> dict[str, float]:
    return {decision.candidates[1]: 0.9, "somewhere else": 0.1}


def test_a_function_is_a_policy_and_what_it_puts_elsewhere_is_not_covered() -> None:
    decisions = decisions_of(ROWS)
    found = target("python:tests.evaluation.test_off_policy:second", decisions)
    assert found.chances_M.tolist() == [0, 0.9] * 4
    assert overlap(decisions, found.chances_M, found.agreeing_N).covered == pytest.approx(0.9)


# the models of rewards


def drawn(count: int, seed: int, floor: float = 0.2) -> tuple[Decisions, float]:
    """Points on a line; a is right above 0, b below, in 90 % of the cases. Logged: b more often. And the greedy's value."""
    rng = np.random.Generator(np.random.Philox(seed))
    x = rng.uniform(-1, 1, count)
    takes_a = rng.random(count) < floor
    right = (x > 0) == takes_a
    rewards = (rng.random(count) < np.where(right, 0.9, 0.1)).astype(float)
    rows = [("a" if a else "b", floor if a else 1 - floor, r) for a, r in zip(takes_a, rewards, strict=True)]
    return decisions_of(rows, contexts=[[value] for value in x.tolist()]), 0.5  # always a: right in half


def test_no_reward_is_predicted_from_itself_or_from_what_came_after() -> None:
    decisions, _ = drawn(200, 0)
    found = target("fixed:a", decisions)
    weights_N = found.agreeing_N / decisions.propensities_N
    last_chosen = int(np.flatnonzero(weights_N)[-1])

    def predicted(forward: bool) -> Floats:
        stretch_N = growing(200) if forward else folds(200, 5)
        return fitted(decisions, found.chances_M, weights_N, stretch_N, forward, quiet)

    forward, others, before = predicted(True), predicted(False), prequential(decisions, quiet)
    decisions.rewards_N[last_chosen] = 1 - decisions.rewards_N[last_chosen]
    until = 2 * (last_chosen + 1)  # two candidates each
    assert (predicted(True)[:until] == forward[:until]).all()
    assert (prequential(decisions, quiet)[0][:until] == before[0][:until]).all()
    changed = np.flatnonzero(predicted(False) != others) // 2
    assert len(changed) and folds(200, 5)[last_chosen] not in folds(200, 5)[changed]


def test_ridge_learns_which_action_is_right_where() -> None:
    decisions, _ = drawn(3_000, 1)
    greedy = target("greedy:ridge", decisions).chances_M.reshape(-1, 2)[:, 0]
    x = np.frombuffer(b"".join(decisions.features))
    clear = (np.abs(x) > 0.2) & (np.arange(3_000) > 1_000)
    assert ((greedy > 0) == (x > 0))[clear].mean() > 0.98


# against the truth


def test_estimates_agree_with_the_truth_on_average_and_their_intervals_hold_it() -> None:
    """200 logs of 400 decisions. Biased by less than four standard errors of the mean error: by chance 1 in 16,000."""
    runs, errors, held = 200, dict[str, list[float]](), dict[str, list[bool]]()
    asks = Asks(("ips", "snips", "dr"), resamples=200)
    anytime = []
    for seed in range(runs):
        decisions, truth = drawn(400, seed)
        (judged,) = evaluate(decisions, ["fixed:a"], Scorers(decisions, quiet), asks, quiet).policies
        anytime.append(judged.anytime[0] <= truth <= judged.anytime[1])
        for name, estimate in judged.estimates.items():
            errors.setdefault(name, []).append(estimate.value - truth)
            held.setdefault(name, []).append(estimate.bootstrap[0] <= truth <= estimate.bootstrap[1])
            assert estimate.bernstein is None or estimate.bernstein[0] <= truth <= estimate.bernstein[1]
    for name in errors:
        assert abs(np.mean(errors[name])) < 4 * np.std(errors[name]) / math.sqrt(runs), name
        assert np.mean(held[name]) > 0.90, name  # promised .95; three standard errors of 200 are .046
    assert np.std(errors["dr"]) < 0.8 * np.std(errors["ips"])
    assert np.mean(anytime) >= 0.95


def test_the_logged_policy_earns_what_it_earned() -> None:
    decisions, _ = drawn(300, 3)
    (judged,) = evaluate(decisions, ["logged"], Scorers(decisions, quiet), Asks(), quiet).policies
    for name in ("ips", "clipped", "snips", "dr", "switch"):
        assert judged.estimates[name].value == pytest.approx(decisions.rewards_N.mean()), name
    assert judged.overlap.ess == 300 and not judged.withheld and not judged.warnings


def test_the_replay_method_is_refused_unless_choices_were_uniform() -> None:
    asks = Asks(("replay",))
    skewed, _ = drawn(2_000, 4)
    with pytest.raises(BadInput, match="takes a log whose choices were uniform"):
        evaluate(skewed, ["fixed:a"], Scorers(skewed, quiet), asks, quiet)
    uniform, _ = drawn(2_000, 4, floor=0.5)
    (judged,) = evaluate(uniform, ["fixed:a"], Scorers(uniform, quiet), asks, quiet).policies
    chosen = uniform.action_M[uniform.chosen_N] == uniform.actions.index("a")
    assert judged.estimates["replay"].value == pytest.approx(uniform.rewards_N[chosen].mean())


# where there is no number


def only(decisions: Decisions, policy: str) -> tuple[str, list[str]]:
    (judged,) = evaluate(decisions, [policy], Scorers(decisions, quiet), Asks(), quiet).policies
    assert bool(judged.estimates) is not bool(judged.withheld)
    assert judged.anytime[0] <= judged.anytime[1]
    return judged.withheld, judged.warnings


def test_a_log_without_propensities_says_nothing_about_another_policy() -> None:
    withheld, _ = only(decisions_of([("a", 1.0, 1.0)] * 500), "uniform")
    assert withheld.startswith("the log has no propensities")


def test_choices_that_could_not_be_logged_withhold_the_number_and_few_of_them_warn() -> None:
    rows = [("a", 1.0, 1.0)] * 50 + [("a", 0.5, 1.0), ("b", 0.5, 0.0)] * 225
    assert "10.0% of its choices are such that the logging policy could not" in only(decisions_of(rows), "fixed:b")[0]
    rows = [("a", 1.0, 1.0)] * 4 + [("a", 0.5, 1.0), ("b", 0.5, 0.0)] * 248
    withheld, warnings = only(decisions_of(rows), "fixed:b")
    assert not withheld and warnings == ["0.80% of its choices could not have been logged: it may be wrong by as much"]


def test_a_small_effective_sample_withholds_the_number() -> None:
    rows = [("a", 0.99, 1.0)] * 990 + [("b", 0.01, 0.0)] * 10
    assert only(decisions_of(rows), "fixed:b")[0].startswith("its effective sample size is 10.0; below 30")


def test_propensities_that_cannot_be_true_are_warned_of() -> None:
    rows = [("a", 0.9, 1.0), ("b", 0.1, 0.0)] * 500
    _, warnings = only(decisions_of(rows), "fixed:b")
    assert warnings == ["the mean weight is 5.000 where it should be 1: are the propensities true?"]


@pytest.mark.parametrize("wrong", [{"level": 1.0}, {"clip": -1.0}, {"folds": 1}, {"resamples": 10}])
def test_what_is_asked_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput, match="--level lies between"):
        Asks(**wrong)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="no estimator 'best'"):
        Asks(("best",))


# our log and the command


def test_a_replayed_model_knows_at_each_decision_what_the_served_one_knew() -> None:
    decisions, source = read_decisions(str(DESK), Reading())
    scorers = Scorers(decisions, quiet, source)
    found = chances("greedy:classifier", decisions, scorers)
    assert (found.agreeing_N == 1).all(), "it would have answered as was answered"
    assert np.allclose(scorers.scored("classifier").scores_M, decisions.scores_M, atol=2e-6)


def test_the_command_puts_policies_side_by_side_and_says_why_one_has_no_number() -> None:
    done = run_online("evaluate", str(DESK), "--policy", "logged", "--policy", "uniform", "--estimator", "ips")
    assert done.returncode == 0, done.stderr
    assert "136 decisions among 5 actions" in done.stdout and "0.7574" in done.stdout
    assert "5 predictions without feedback that stands" in done.stdout
    assert "uniform: no estimate: the log has no propensities" in " ".join(done.stdout.split())
    told = json.loads(run_online("evaluate", str(DESK), "--policy", "logged", "--json").stdout)
    assert told["policies"][0]["estimates"]["ips"]["value"] == pytest.approx(103 / 136)
    assert set(told) == set(Evaluation.__dataclass_fields__)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.csv", "--policy", "logged"), "there is no file nowhere.csv"),
        ((str(DESK), "--policy", "best"), "there is no policy 'best'"),
        ((str(DESK), "--policy", "logged", "--estimator", "replay"), "choices were uniform"),
        ((str(DESK), "--policy", "logged", "--costs", "5"), "--costs takes LOW:HIGH"),
        ((str(DESK), "--policy", "logged", "--format", "xml"), "no format 'xml'"),
    ],
)
def test_the_command_refuses_with_a_reason(arguments: tuple[str, ...], words: str) -> None:
    done = run_online("evaluate", *arguments)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def interrupted(decision: Decision) -> dict[str, float]:
    raise KeyboardInterrupt


def test_ctrl_c_ends_the_command_with_130() -> None:
    policy = "python:tests.evaluation.test_off_policy:interrupted"
    done = run_online("evaluate", str(DESK), "--policy", policy, cwd=ROOT)
    assert done.returncode == 130 and "Traceback" not in done.stderr


# the Open Bandit data

OPEN_BANDIT = Columns("item_id", "click", "propensity_score", "position", ("user_feature*",))


def test_the_open_bandit_data_hold_their_own_value_and_are_honest_about_the_others(shared_data: Path) -> None:
    files = {name: shared_data / "open_bandit" / f"{name}_men_men.csv.gz" for name in ("random", "bts")}
    found = {name: read_decisions(str(path), Reading(columns=OPEN_BANDIT))[0] for name, path in files.items()}
    assert [decisions.rewards_N.sum() for decisions in found.values()] == [46, 69]
    decisions = found["bts"]
    asks = Asks(("ips",))
    logged, uniform = evaluate(decisions, ["logged", "uniform"], Scorers(decisions, quiet), asks, quiet).policies
    own, other = logged.estimates["ips"], uniform.estimates["ips"]
    assert own.value == 69 / 10_000 and own.bootstrap[0] < own.value < own.bootstrap[1]
    assert uniform.overlap.ess < 1_000 < logged.overlap.ess
    assert other.bootstrap[0] <= 46 / 10_000 <= other.bootstrap[1], "what the random policy earned in truth"


def test_estimates_share_their_resamples() -> None:
    each = by_hand()
    both = estimates({"ips": terms_of("ips", each, 0), "again": terms_of("ips", each, 0)}, 0.9, 300, 1)
    assert both["ips"] == both["again"]


# versions


def test_a_version_scores_the_log_of_its_service_and_says_what_it_had_learned_of_it(
    service: Service, tmp_path: Path
) -> None:
    known = 0
    with service.client("vec") as client:
        for turn in range(20):
            row = [float(turn % 2), 0.0, 0.0, 0.0]
            asked = client.predict([row], min_offset=known, timeout_ms=20_000)["prediction_ids"][0]
            known = client.feedback([{"prediction_id": asked, "label": f"class {turn % 2}"}])[0]["offset"]
        service.wait_learned("vec", known)
    where = ("--model", "vec", "--state", str(service.state), "--config", str(service.state.with_suffix(".toml")))
    log, version = str(tmp_path / "vec.jsonl"), service.versions("vec")[0]["version"]
    assert run_online("log", "export", *where, "--output", log).returncode == 0
    done = run_online("evaluate", log, *where, "--policy", f"greedy:version:{version}", "--json")
    assert done.returncode == 0, done.stderr
    (judged,) = json.loads(done.stdout)["policies"]
    assert "flatters it" in judged["warnings"][0] and judged["overlap"]["followed"] > 0.5


def test_a_version_of_another_encoder_is_refused() -> None:
    decisions, source = read_decisions(str(DESK), Reading())
    other = Version(3, create("classifier", {}), 0, "minilm-of-tomorrow")
    with pytest.raises(BadInput, match="version 3 reads features of minilm-of-tomorrow"):
        Scorers(decisions, quiet, source, lambda number: other).scored("version:3")
