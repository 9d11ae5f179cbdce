"""`online evaluate`: off-policy evaluation of other policies on a log of decisions."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from online.cli.options import (
    ConfigOption,
    CostsOption,
    DelimiterOption,
    JsonOption,
    MaxBadRatioOption,
    ModelOption,
    StateOption,
    parse_delimiter,
)
from online.cli.progress import show_bar
from online.cli.state import load_settings, open_workspace, select_model

if TYPE_CHECKING:
    from online.io.progress import Progress
    from online.plugins.off_policy.policy_evaluation import Evaluation
    from online.plugins.off_policy.scorers import PublishedVersion


def evaluate(
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG", help="An exported log, CSV, Vowpal Wabbit bandit text (--cb, --cb_adf), dsjson, or -."
        ),
    ],
    policy: Annotated[list[str], typer.Option("--policy", help="A policy as above; repeat to compare several.")],
    estimator: Annotated[
        list[str] | None,
        typer.Option("--estimator", help="ips, clipped, snips, dm, dr, switch or replay. Default: all but replay."),
    ] = None,
    action: Annotated[
        str,
        typer.Option("--action", help="CSV column of the chosen action; for VW multi-line: tag, features, position."),
    ] = "",
    reward: Annotated[str, typer.Option("--reward", help="CSV column of the reward, in [0, 1].")] = "",
    propensity: Annotated[
        str, typer.Option("--propensity", help="CSV column of the probability with which the action was chosen.")
    ] = "",
    slot: Annotated[str, typer.Option("--slot", help="CSV column of the position where the action was shown.")] = "",
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", help="CSV columns of the context, such as 'user*'; may be repeated. Default: all."),
    ] = None,
    costs: CostsOption = "",
    delimiter: DelimiterOption = "",
    format: Annotated[str, typer.Option("--format", help="online, csv, vw or dsjson. Default: by content.")] = "",
    clip: Annotated[
        float,
        typer.Option("--clip", help="Largest weight of clipped and switch; 0: square root of the number of decisions."),
    ] = 0.0,
    folds: Annotated[int, typer.Option("--folds", help="Folds for cross-fitting the reward model.")] = 5,
    level: Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")] = 0.95,
    resamples: Annotated[int, typer.Option("--resamples", help="Number of bootstrap resamples.")] = 1_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the bootstrap.")] = 0,
    max_bad_ratio: MaxBadRatioOption = 0.0,
    option: Annotated[
        list[str] | None, typer.Option("--option", help="NAME=VALUE for a replayed model; may be repeated.")
    ] = None,
    state: StateOption = None,
    config: ConfigOption = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate the reward of other policies from a log.

    The log holds the decisions of one policy; the others are judged off-policy.

    Policies: logged, uniform, fixed:REPLY, greedy:MODEL, epsilon:MODEL:0.1, softmax:MODEL:0.1,
    thompson:MODEL, python:MODULE:FUNCTION (takes a decision, returns {candidate: probability}).

    MODEL is logged-scores, ridge (fitted on the rewards so far), version:N of a state folder, or a
    kind (ranker, classifier, ...) that replays the log up to each decision (not for CSV).

    An estimate is printed only if the log supports it: propensities below 1, at most 1 % of the
    policy's choices impossible under the log, and an effective sample size of at least 30.
    Otherwise the reason is printed.

    \b
    Examples:
      online evaluate chat.jsonl --policy logged --policy greedy:ranker --policy epsilon:logged-scores:0.2
      online evaluate clicks.csv --action item --reward click --propensity p --policy uniform
    """
    from online.evaluation.replay.candidate_files import parse_options
    from online.evaluation.sources.vw_survey import parse_cost_range
    from online.io.records import ReadLimits
    from online.plugins.off_policy.estimate_table import evaluation_as_json, print_evaluation
    from online.plugins.off_policy.estimators import DEFAULT_ESTIMATORS
    from online.plugins.off_policy.logged_decisions import CsvColumns, DecisionReadOptions, read_decision_log
    from online.plugins.off_policy.policy_evaluation import EvaluationOptions
    from online.plugins.off_policy.policy_evaluation import evaluate as evaluate_policies
    from online.plugins.off_policy.scorers import Scorers

    limits, separator = ReadLimits.of(load_settings(config)), parse_delimiter(delimiter)
    columns = CsvColumns(action, reward, propensity, slot, tuple(feature or ()))
    reading = DecisionReadOptions(format, columns, parse_cost_range(costs), max_bad_ratio, limits, separator)
    parameters = EvaluationOptions(estimator or DEFAULT_ESTIMATORS, clip, folds, level, resamples, seed)

    def work(tick: "Progress") -> "Evaluation":
        decisions, source = read_decision_log(log, reading, lambda share: tick("reading", int(1_000 * share), 1_000))
        scorers = Scorers(
            decisions, tick, source, partial(load_published, config, state, model), parse_options(option or [])
        )
        return evaluate_policies(decisions, policy, scorers, parameters, tick)

    evaluation = show_bar(work)
    if as_json:
        typer.echo(evaluation_as_json(evaluation))
    else:
        print_evaluation(evaluation)


def load_published(config: Path | None, state: Path | None, model: str | None, number: int) -> "PublishedVersion":
    """Return a version of a state folder, to score decisions with."""
    from online.plugins.off_policy.scorers import load_version

    settings = load_settings(config, state=state)
    spec = select_model(settings, model)
    with open_workspace(settings) as workspace:
        return load_version(workspace, spec, number)
