"""Off-policy estimates: against values by hand, against a known truth, and withheld if the log does not suffice."""

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from online.errors import BadInput
from online.evaluation.sources.bad_lines import BadLines
from online.models import Example, create
from online.models.ranker.ranker import Ranker
from online.plugins.off_policy.decisions import Decisions, DecisionsBuilder, Floats, LoggedChoice
from online.plugins.off_policy.estimators import WeighedLog, compute_estimates, compute_overlap, compute_terms, weigh
from online.plugins.off_policy.logged_decisions import CsvColumns, DecisionReadOptions, read_decision_log
from online.plugins.off_policy.policy_evaluation import Evaluation, EvaluationOptions, PolicyResult, evaluate
from online.plugins.off_policy.reward_model import (
    assign_folds,
    assign_growing_stretches,
    predict_prequentially,
    predict_rewards,
)
from online.plugins.off_policy.scorers import PublishedVersion, Scorers
from online.plugins.off_policy.targets import TargetProbabilities, compute_target
from tests.evaluation.replaying import ignore_progress
from tests.models.synthetic import TOPICS, replies, text
from tests.support import Service, first_of, run_online

ROOT = Path(__file__).parents[3]
DESK = ROOT / "data" / "desk.jsonl"


def build_decisions(
    rows: Sequence[tuple[str, float, float]], actions: str = "ab", contexts: Sequence[Sequence[float]] = ()
) -> Decisions:
    """Build decisions from rows of (choice, propensity, reward). Scores fall with the index. contexts: vectors."""
    builder = DecisionsBuilder(input="vector" if contexts else "")
    for index, (choice, propensity, reward) in enumerate(rows):
        scored = [(name, 1.0 / (1 + rank)) for rank, name in enumerate(actions)]
        features = np.array(contexts[index], np.float64).tobytes() if contexts else b""
        builder.add(str(index), scored, choice, propensity, reward, features)
    return builder.build("test", BadLines())


def target(policy: str, decisions: Decisions) -> TargetProbabilities:
    return compute_target(policy, decisions, Scorers(decisions, ignore_progress))


def evaluate_policies(
    decisions: Decisions, policies: Sequence[str], options: EvaluationOptions | None = None
) -> Sequence[PolicyResult]:
    scorers = Scorers(decisions, ignore_progress)
    return evaluate(decisions, policies, scorers, options or EvaluationOptions(), ignore_progress).policies


# by hand

ROWS = [("a", 0.5, 1.0), ("b", 0.25, 0.5), ("a", 0.8, 0.0), ("b", 0.2, 1.0)]


def weigh_rows() -> WeighedLog:
    """The target takes a with 0.75. The model predicts 0.6 for a and 0.2 for b; the direct method 0.5 and 0.3."""
    decisions = build_decisions(ROWS)
    chances_M = np.array([0.75, 0.25] * 4)
    before_M, others_M = np.array([0.6, 0.2] * 4), np.array([0.5, 0.3] * 4)
    return weigh(decisions, chances_M, chances_M[decisions.chosen_N], before_M, others_M)


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
    log = weigh_rows()
    assert log.weights_N.tolist() == pytest.approx([1.5, 1.0, 0.9375, 1.25])
    assert compute_terms(name, log, clip=1.2).value == pytest.approx(value)


def test_weights_beyond_the_threshold_are_clipped_or_left_to_the_model() -> None:
    """One of 5,000 weights is 100, above the threshold of sqrt(5000) = 71."""
    weights_N = np.ones(5_000)
    weights_N[7] = 100.0
    rewards_N = (np.arange(5_000) % 2).astype(np.float64)
    half = np.full(5_000, 0.5)
    log = WeighedLog(rewards_N, weights_N, weights_N, 100.0, half, half, half)
    values = {name: compute_terms(name, log, 0.0).values_N[7] for name in ("ips", "clipped", "dr", "switch")}
    assert values == pytest.approx({"ips": 100, "clipped": math.sqrt(5_000), "dr": 0.5 + 50, "switch": 0.5})
    assert (
        compute_terms("switch", log, 0.0).values_N[9] == 1.0 and compute_terms("switch", log, 200.0).values_N[7] == 50.5
    )


def test_overlap_has_the_values_of_its_definition() -> None:
    decisions = build_decisions([("a", 0.5, 1.0), ("b", 0.25, 0.5), ("a", 1.0, 0.0), ("b", 0.2, 1.0)])
    always_b = target("fixed:b", decisions)
    result = compute_overlap(decisions, always_b.chances_M, always_b.agreeing_N)
    assert result.ess == pytest.approx((4 + 5) ** 2 / (16 + 25)) and result.largest_weight == 5
    assert result.mean_weight == 9 / 4 and result.followed == 0.5
    assert result.covered == 0.75  # a was certain in the third decision


# targets


def test_targets_have_the_probabilities_of_their_rules() -> None:
    decisions = build_decisions([("a", 0.5, 1.0), ("c", 0.25, 0.5)], actions="abc")

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
    decisions = build_decisions([("a", 0.5, 1.0)] * 2, actions="abc")
    decisions.scores_M[:] = [math.nan, 0.1, 0.3, math.nan, math.nan, math.nan]
    result = target("greedy:logged-scores", decisions).chances_M.tolist()
    assert result == pytest.approx([0, 0, 1, 1 / 3, 1 / 3, 1 / 3])


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("best", "there is no policy 'best'; one of logged"),
        ("fixed:z", "no decision of this log has it"),
        ("greedy:oracle", "there is no model 'oracle'"),
        ("greedy:ranker", "learns by replaying a log, and a CSV cannot be replayed"),
        ("greedy:version:3", "the version must be a number, and the log one of its own service"),
        ("epsilon:ridge:2", r"takes a share of \[0, 1\], not '2'"),
        ("softmax:ridge:0", "takes a temperature above 0"),
        ("softmax:ridge:x", "takes a temperature above 0"),
        ("thompson:logged-scores", "only ridge gives standard deviations of its scores"),
        ("python:nowhere:f", "cannot be imported"),
        ("python:tests.plugins.off_policy.test_policy_evaluation:DESK", "is not a function"),
        ("python:tests.plugins.off_policy.test_policy_evaluation:too_much", "sum to 1, not 1.5"),
        ("python:tests.plugins.off_policy.test_policy_evaluation:no_dict", "expected {candidate: probability}"),
    ],
)
def test_unknown_policies_are_refused(policy: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        target(policy, build_decisions(ROWS))


def too_much(decision: LoggedChoice) -> dict[str, float]:
    return {"a": 1.0, "b": 0.5}


def no_dict(decision: LoggedChoice) -> list[float]:
    return [1.0]


def second(decision: LoggedChoice) -> dict[str, float]:
    return {decision.candidates[1]: 0.9, "somewhere else": 0.1}


def test_a_function_is_a_policy_and_its_probability_on_other_candidates_is_not_covered() -> None:
    decisions = build_decisions(ROWS)
    result = target("python:tests.plugins.off_policy.test_policy_evaluation:second", decisions)
    assert result.chances_M.tolist() == [0, 0.9] * 4
    assert compute_overlap(decisions, result.chances_M, result.agreeing_N).covered == pytest.approx(0.9)


# the models of rewards


def draw_decisions(count: int, seed: int, floor: float = 0.2) -> tuple[Decisions, float]:
    """Decisions on a number x, and the true value of always taking a.

    The right choice, a above 0 and b below, is rewarded in 90 % of the decisions and the other one in 10 %.
    """
    rng = np.random.Generator(np.random.Philox(seed))
    x = rng.uniform(-1, 1, count)
    takes_a = rng.random(count) < floor
    right = (x > 0) == takes_a
    rewards = (rng.random(count) < np.where(right, 0.9, 0.1)).astype(float)
    rows = [("a" if a else "b", floor if a else 1 - floor, r) for a, r in zip(takes_a, rewards, strict=True)]
    return build_decisions(rows, contexts=[[value] for value in x.tolist()]), 0.5  # always a: right in half


def test_no_reward_is_predicted_from_itself_or_from_what_came_after() -> None:
    decisions, _ = draw_decisions(200, 0)
    result = target("fixed:a", decisions)
    weights_N = result.agreeing_N / decisions.propensities_N
    last_chosen = int(np.flatnonzero(weights_N)[-1])

    def predicted(forward: bool) -> Floats:
        stretch_N = assign_growing_stretches(200) if forward else assign_folds(200, 5)
        return predict_rewards(decisions, result.chances_M, weights_N, stretch_N, forward, ignore_progress)

    forward, others, before = predicted(True), predicted(False), predict_prequentially(decisions, ignore_progress)
    decisions.rewards_N[last_chosen] = 1 - decisions.rewards_N[last_chosen]
    until = 2 * (last_chosen + 1)  # two candidates each
    assert (predicted(True)[:until] == forward[:until]).all()
    assert (predict_prequentially(decisions, ignore_progress)[0][:until] == before[0][:until]).all()
    changed = np.flatnonzero(predicted(False) != others) // 2
    assert len(changed) and assign_folds(200, 5)[last_chosen] not in assign_folds(200, 5)[changed]


def test_ridge_learns_which_action_is_right_in_which_context() -> None:
    decisions, _ = draw_decisions(3_000, 1)
    greedy = target("greedy:ridge", decisions).chances_M.reshape(-1, 2)[:, 0]
    x = np.frombuffer(b"".join(decisions.features))
    clear = (np.abs(x) > 0.2) & (np.arange(3_000) > 1_000)
    assert ((greedy > 0) == (x > 0))[clear].mean() > 0.98


# against the truth


def test_estimates_are_unbiased_and_their_intervals_contain_the_truth() -> None:
    """200 logs of 400 decisions. Biased by less than four standard errors of the mean error: by chance 1 in 16,000."""
    runs, errors, contained = 200, dict[str, list[float]](), dict[str, list[bool]]()
    options = EvaluationOptions(("ips", "snips", "dr"), resamples=200)
    anytime = []
    for seed in range(runs):
        decisions, truth = draw_decisions(400, seed)
        (evaluation,) = evaluate_policies(decisions, ["fixed:a"], options)
        anytime.append(evaluation.anytime[0] <= truth <= evaluation.anytime[1])
        for name, estimate in evaluation.estimates.items():
            errors.setdefault(name, []).append(estimate.value - truth)
            contained.setdefault(name, []).append(estimate.bootstrap[0] <= truth <= estimate.bootstrap[1])
            assert estimate.bernstein is None or estimate.bernstein[0] <= truth <= estimate.bernstein[1]
    for name in errors:
        assert abs(np.mean(errors[name])) < 4 * np.std(errors[name]) / math.sqrt(runs), name
        assert np.mean(contained[name]) > 0.90, name  # the level is .95; three standard errors of 200 runs are .046
    assert np.std(errors["dr"]) < 0.8 * np.std(errors["ips"])
    assert np.mean(anytime) >= 0.95


def test_the_logged_policy_is_estimated_at_its_mean_reward() -> None:
    decisions, _ = draw_decisions(300, 3)
    (evaluation,) = evaluate_policies(decisions, ["logged"])
    for name in ("ips", "clipped", "snips", "dr", "switch"):
        assert evaluation.estimates[name].value == pytest.approx(decisions.rewards_N.mean()), name
    assert evaluation.overlap.ess == 300 and not evaluation.withheld and not evaluation.warnings


def test_the_replay_method_is_refused_unless_choices_were_uniform() -> None:
    options = EvaluationOptions(("replay",))
    skewed, _ = draw_decisions(2_000, 4)
    with pytest.raises(BadInput, match="needs a log of uniform choices"):
        evaluate_policies(skewed, ["fixed:a"], options)
    uniform, _ = draw_decisions(2_000, 4, floor=0.5)
    (evaluation,) = evaluate_policies(uniform, ["fixed:a"], options)
    chosen = uniform.action_M[uniform.chosen_N] == uniform.actions.index("a")
    assert evaluation.estimates["replay"].value == pytest.approx(uniform.rewards_N[chosen].mean())


# without estimates


ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def evaluate_one(decisions: Decisions, policy: str) -> tuple[str, list[str]]:
    (evaluation,) = evaluate_policies(decisions, [policy])
    assert bool(evaluation.estimates) is not bool(evaluation.withheld)
    assert evaluation.anytime[0] <= evaluation.anytime[1]
    return evaluation.withheld, evaluation.warnings


def test_a_log_without_propensities_says_nothing_about_another_policy() -> None:
    withheld, _ = evaluate_one(build_decisions([("a", 1.0, 1.0)] * 500), "uniform")
    assert withheld.startswith("the log has no propensities")


def test_many_choices_outside_the_log_withhold_the_estimate_and_few_give_a_warning() -> None:
    rows = [("a", 1.0, 1.0)] * 50 + [("a", 0.5, 1.0), ("b", 0.5, 0.0)] * 225
    assert (
        "the logging policy could not have made 10.0% of its choices"
        in evaluate_one(build_decisions(rows), "fixed:b")[0]
    )
    rows = [("a", 1.0, 1.0)] * 4 + [("a", 0.5, 1.0), ("b", 0.5, 0.0)] * 248
    withheld, warnings = evaluate_one(build_decisions(rows), "fixed:b")
    assert not withheld and warnings == [
        "0.80% of its choices could not have been logged: the estimate may be wrong by as much"
    ]


def test_a_small_effective_sample_withholds_the_estimate() -> None:
    rows = [("a", 0.99, 1.0)] * 990 + [("b", 0.01, 0.0)] * 10
    assert evaluate_one(build_decisions(rows), "fixed:b")[0].startswith("its effective sample size is 10.0; below 30")


def test_impossible_propensities_give_a_warning() -> None:
    rows = [("a", 0.9, 1.0), ("b", 0.1, 0.0)] * 500
    _, warnings = evaluate_one(build_decisions(rows), "fixed:b")
    assert warnings == ["the mean weight is 5.000 and should be 1: are the propensities correct?"]


@pytest.mark.parametrize("digits", [2, 3, 4])
@pytest.mark.parametrize("count", [3, 7, 13, 19])
def test_propensities_that_are_printed_with_few_digits_give_no_warning(digits: int, count: int) -> None:
    printed = round(1 / count, digits)
    rows = [(ALPHABET[place], printed, float(place % 2)) for place in range(count)] * (900 // count)
    decisions = build_decisions(rows, ALPHABET[:count])
    for policy in ("logged", "uniform"):
        assert evaluate_one(decisions, policy) == ("", [])


def test_propensities_that_are_wrong_beyond_their_digits_still_give_a_warning() -> None:
    rows = [("a", 0.4, 1.0), ("b", 0.4, 0.0), ("c", 0.333, 0.0)] * 300
    decisions = build_decisions(rows, "abc")
    assert "are the propensities correct?" in evaluate_one(decisions, "uniform")[1][0]


@pytest.mark.parametrize("seed", first_of(range(8)))
def test_an_estimate_lies_in_its_intervals_and_those_in_the_range_of_rewards(seed: int) -> None:
    draw = random.Random(seed)
    rows = []
    for _ in range(200):  # rare choices that were always good: the weighed mean is above 1 as often as below
        is_rare = draw.random() < 0.25
        rows.append(("b", 0.2, 1.0) if is_rare else ("a", 0.8, 0.9))
    decisions = build_decisions(rows)
    (result,) = evaluate(
        decisions, ["fixed:b"], Scorers(decisions, ignore_progress), EvaluationOptions(), ignore_progress
    ).policies
    assert result.estimates and not result.withheld
    for each in result.estimates.values():
        intervals = [each.bootstrap, *([each.bernstein] if each.bernstein else [])]
        assert all(0 <= low <= each.value <= high <= 1 for low, high in intervals)
    assert 0 <= result.anytime[0] <= result.anytime[1] <= 1


@pytest.mark.parametrize("wrong", [{"level": 1.0}, {"clip": -1.0}, {"folds": 1}, {"resamples": 10}])
def test_options_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput, match="--level lies between"):
        EvaluationOptions(**wrong)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="no estimator 'best'"):
        EvaluationOptions(("best",))


# our log and the command


def test_a_replayed_model_has_learned_the_same_as_the_served_one_at_each_decision() -> None:
    decisions, source = read_decision_log(str(DESK), DecisionReadOptions())
    scorers = Scorers(decisions, ignore_progress, source)
    result = compute_target("greedy:classifier", decisions, scorers)
    assert (result.agreeing_N == 1).all(), "the replayed model gives the logged answers"
    assert np.allclose(scorers.scored("classifier").scores_M, decisions.scores_M, atol=2e-6)


def test_the_command_compares_policies_and_says_why_one_has_no_estimate() -> None:
    process = run_online("evaluate", str(DESK), "--policy", "logged", "--policy", "uniform", "--estimator", "ips")
    assert process.returncode == 0, process.stderr
    assert "136 decisions among 5 actions" in process.stdout and "0.7574" in process.stdout
    assert "5 predictions without feedback that stands" in process.stdout
    assert "uniform: no estimate: the log has no propensities" in " ".join(process.stdout.split())
    report = json.loads(run_online("evaluate", str(DESK), "--policy", "logged", "--json").stdout)
    assert report["policies"][0]["estimates"]["ips"]["value"] == pytest.approx(103 / 136)
    assert set(report) == set(Evaluation.__dataclass_fields__)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.csv", "--policy", "logged"), "there is no file nowhere.csv"),
        ((str(DESK), "--policy", "best"), "there is no policy 'best'"),
        ((str(DESK), "--policy", "logged", "--estimator", "replay"), "log of uniform choices"),
        ((str(DESK), "--policy", "logged", "--costs", "5"), "--costs takes LOW:HIGH"),
        ((str(DESK), "--policy", "logged", "--format", "xml"), "no format 'xml'"),
    ],
)
def test_the_command_reports_invalid_arguments(arguments: tuple[str, ...], message: str) -> None:
    process = run_online("evaluate", *arguments)
    assert process.returncode == 2 and message in process.stderr and "Traceback" not in process.stderr


def interrupted(decision: LoggedChoice) -> dict[str, float]:
    raise KeyboardInterrupt


def test_ctrl_c_ends_the_command_with_130() -> None:
    policy = "python:tests.plugins.off_policy.test_policy_evaluation:interrupted"
    process = run_online("evaluate", str(DESK), "--policy", policy, cwd=ROOT)
    assert process.returncode == 130 and "Traceback" not in process.stderr


# the Open Bandit data

OPEN_BANDIT = CsvColumns("item_id", "click", "propensity_score", "position", ("user_feature*",))


@pytest.mark.long
def test_the_open_bandit_data_give_their_own_value_and_valid_intervals_for_others(shared_data: Path) -> None:
    files = {name: shared_data / "open_bandit" / f"{name}_men_men.csv.gz" for name in ("random", "bts")}
    decisions_by_policy = {
        name: read_decision_log(str(path), DecisionReadOptions(columns=OPEN_BANDIT))[0] for name, path in files.items()
    }
    assert [decisions.rewards_N.sum() for decisions in decisions_by_policy.values()] == [46, 69]
    decisions = decisions_by_policy["bts"]
    options = EvaluationOptions(("ips",))
    logged, uniform = evaluate_policies(decisions, ["logged", "uniform"], options)
    logged_ips, uniform_ips = logged.estimates["ips"], uniform.estimates["ips"]
    assert logged_ips.value == 69 / 10_000 and logged_ips.bootstrap[0] < logged_ips.value < logged_ips.bootstrap[1]
    assert uniform.overlap.ess < 1_000 < logged.overlap.ess
    assert uniform_ips.bootstrap[0] <= 46 / 10_000 <= uniform_ips.bootstrap[1], "the mean reward of the random policy"


def test_estimates_share_their_resamples() -> None:
    log = weigh_rows()
    both = compute_estimates({"ips": compute_terms("ips", log, 0), "again": compute_terms("ips", log, 0)}, 0.9, 300, 1)
    assert both["ips"] == both["again"]


# versions


def test_a_version_scores_the_log_of_its_service_and_warns_of_learned_decisions(
    service: Service, tmp_path: Path
) -> None:
    known = 0
    with service.client("vec") as client:
        for turn in range(20):
            row = [float(turn % 2), 0.0, 0.0, 0.0]
            prediction_id = client.predict([row], min_offset=known, timeout_ms=20_000)["prediction_ids"][0]
            known = client.feedback([{"prediction_id": prediction_id, "label": f"class {turn % 2}"}])[0]["offset"]
        service.wait_learned("vec", known)
    where = ("--model", "vec", "--state", str(service.state), "--config", str(service.state.with_suffix(".toml")))
    log, version = str(tmp_path / "vec.jsonl"), service.versions("vec")[0]["version"]
    assert run_online("log", "export", *where, "--output", log).returncode == 0
    process = run_online("evaluate", log, *where, "--policy", f"greedy:version:{version}", "--json")
    assert process.returncode == 0, process.stderr
    (evaluation,) = json.loads(process.stdout)["policies"]
    assert "its estimate may be too high" in evaluation["warnings"][0] and evaluation["overlap"]["followed"] > 0.5


def test_a_version_of_another_encoder_is_refused() -> None:
    decisions, source = read_decision_log(str(DESK), DecisionReadOptions())
    other_version = PublishedVersion(3, create("classifier", {}), 0, "minilm-of-tomorrow")
    with pytest.raises(BadInput, match="version 3 reads features of minilm-of-tomorrow"):
        Scorers(decisions, ignore_progress, source, lambda number: other_version).scored("version:3")


@pytest.mark.long
def test_the_log_of_an_optimistic_ranker_tells_what_its_best_replies_would_have_earned() -> None:
    """The share of thumbs up of each reply is set; every third question is about a topic that no reply's text names."""
    ranker = Ranker(
        {"abstain_below": -1.0, "abstain_margin": 0.0, "min_chance": 0.0, "explore_share": 0.5, "optimism": 100.0}
    )
    ranker.learn(replies())
    rejected = [(name, variant) for name in TOPICS for variant in range(3)]
    ranker.learn(
        [
            Example(offset, "reward", text(30, variant), name, reward=0.0)
            for offset, (name, variant) in enumerate(rejected, 100)
        ]
    )
    earns = {"mango": 0.2, "melon": 0.4, "nut": 0.6, "olive": 0.8, "other": 0.5}
    questions = [text((0, 1, 30)[number % 3], 50 + number % 40) for number in range(3_000)]
    answers, draw = ranker.predict(questions, range(3_000)), np.random.default_rng(0)
    builder, truth = DecisionsBuilder(), 0.0
    for number, answer in enumerate(answers):
        assert answer.choice is not None
        scored = [(candidate.id, candidate.score) for candidate in answer.candidates]
        truth += earns[max(scored, key=lambda each: each[1])[0]] / len(answers)
        builder.add(str(number), scored, answer.choice, answer.propensity, float(draw.random() < earns[answer.choice]))
    decisions = builder.build("test", BadLines())
    assert 0.2 < np.mean(decisions.propensities_N < 1) < 0.5
    (found,) = evaluate_policies(decisions, ["greedy:logged-scores"])
    for name in ("ips", "snips", "dr"):
        low, high = found.estimates[name].bootstrap
        assert low < truth < high
        assert found.estimates[name].value == pytest.approx(truth, abs=0.05)
    logged = np.mean(decisions.rewards_N)
    assert abs(logged - truth) > 0.01
