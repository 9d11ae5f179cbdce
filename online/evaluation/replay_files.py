"""Writes the numbers of a replay as JSON, and its learning curves as CSV."""

import csv
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from online.errors import SetupError
from online.evaluation.caveats import warn_of_errors, warn_of_leads, warn_of_log, warn_of_outside, warn_of_unused
from online.evaluation.conclusion import conclude, say_all
from online.evaluation.replay.replay_report import LogResults, ReplayResult
from online.evaluation.words import IN_ENGLISH
from online.schemas.json_values import JSONObject

UNLESS_EMPTY = (  # what is left out where there is nothing to say
    "contents_from",
    "left_out",
    "baseline_skipped",
    "columns",
    "unusable",
    "refused",
    "repeated_lines",
    "missing_events",
    "first_missing",
    "missing_predictions",
    "errors",
)


def results_as_json(played: Sequence[LogResults]) -> JSONObject:
    """Return everything but the learning curves, which `write_curves` writes."""
    results = [{"log": each.log, **result_as_json(result)} for each in played for result in each.results]
    verdicts = [{"log": each.log, **asdict(conclude(each.results, each.interrupted))} for each in played]
    return {"interrupted": any(each.interrupted for each in played), "verdicts": verdicts, "results": results}


def result_as_json(result: ReplayResult) -> JSONObject:
    """Return one result without the model's key."""
    described: JSONObject = {"name": result.candidate.name, "kind": result.candidate.kind}
    described |= {"options": {name: value for name, value in result.candidate.options.items() if name != "key"}}
    if result.failure is not None:
        return {**described, "failure": result.failure}
    assert result.report is not None, "a replay that did not fail has a report"
    report = asdict(result.report)
    del report["details"]["curve"], report["tasks"]
    for name in UNLESS_EMPTY:
        if not report[name]:
            del report[name]
    of_answers = (*warn_of_errors([result.report]), *warn_of_unused(result.report), *warn_of_log([result.report]))
    report["warnings"] = [
        *map(IN_ENGLISH.say, of_answers),
        *(say_all(remark, IN_ENGLISH) for remark in warn_of_leads([result.report])),
        *map(IN_ENGLISH.say, warn_of_outside(result.report)),
    ]
    if result.report.tasks is not None:
        report["tasks"] = {"names": result.report.tasks.names, "accuracies": result.report.tasks.ends}
    return {**described, **report, "against_champion": result.comparison}


def write_curves(played: Sequence[LogResults], path: Path) -> None:
    """Write the learning curves: a row for each log, model and stretch of examples, with the means of the stretch.

    Raises SetupError if the file cannot be written.
    """
    reports = [(each.log, result.report) for each in played for result in each.results if result.report is not None]
    names = sorted({name for _, report in reports for stretch in report.details.curve for name in stretch.sums})
    try:
        with open(path, "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["log", "name", "until", "count", *names])
            for log, report in reports:
                for stretch in report.details.curve:
                    means = ("" if mean is None else f"{mean:.6g}" for mean in map(stretch.mean, names))
                    rows.writerow([log, report.name, stretch.until, stretch.counts.get("model", 0), *means])
    except OSError as error:
        raise SetupError(f"the curve cannot be written to {path}: {error.strerror}") from None
