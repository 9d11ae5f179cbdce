"""Replays a log that a caller uploaded, with the models they requested or those that fit, into one page.

asked.json --> source --> models, with checked options --replay--> report.html

The upload is not trusted: the names in it may only select from what this package provides, and
nothing in it is imported, opened as a path or run.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import get_args

from online.errors import BadInput
from online.evaluation.replay.candidate_files import collect_candidates
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.model_setup import check_candidates
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.replay_report import ReplayResult
from online.evaluation.replay.runs import replay_all
from online.evaluation.sources.column_choice import ColumnChoice
from online.evaluation.sources.log_format import LoggedEvent
from online.evaluation.sources.opening import SURVEYED_ROWS, open_source
from online.evaluation.sources.replay_source import ReadOptions, Source
from online.io.progress import Progress
from online.io.records import ReadLimits, check_file, open_bytes
from online.models import KINDS, check_untrusted_options, parse_number
from online.plugins.reports.languages import ALL_WORDS
from online.plugins.reports.report_page import write_report
from online.plugins.reports.schemas import ColumnsAnswer, RecognisedColumn, ReplayRequest
from online.settings import Drift
from online.state.workspace import name_translation

MAX_SAMPLED = 300  # labels that are checked for being numbers


def replay_uploaded_log(folder: Path, limits: ReadLimits, chosen: Callable[[list[str]], None], tick: Progress) -> None:
    """Replay the log and write the page.

    chosen: called with the names of the models. Raises BadInput, which names the log as its sender did.
    """
    request, path = read_request(folder)
    with named_as_sent(request, path):
        results = _replay(request, path, limits, chosen, tick)
    results = [
        each if each.failure is None else replace(each, failure=use_sent_name(each.failure, request, path))
        for each in results
    ]
    if all(each.report is None for each in results):
        raise BadInput("; ".join(f"{each.candidate.name}: {each.failure}" for each in results))
    tick("writing the page", 0, 1)
    aside = folder / ".report.html"
    for words in reversed(ALL_WORDS):  # the page in English, by which the replay is known to be done, is the last one
        write_report(results, request.name, False, aside, words=words)
        os.replace(aside, name_translation(folder / "report.html", words.language))


def describe_uploaded_columns(folder: Path, limits: ReadLimits) -> ColumnsAnswer:
    """Return what the columns of an uploaded table are. Raises BadInput, which names the file as its sender did."""
    request, path = read_request(folder)
    with named_as_sent(request, path):
        source = open_upload(request, path, limits)
        rows = sum(1 for _ in islice(source.instances(), SURVEYED_ROWS))
    columns = [RecognisedColumn(**asdict(column)) for column in source.profile.columns]
    return ColumnsAnswer(rows=rows, input=source.profile.input, columns=columns)


def read_request(folder: Path) -> tuple[ReplayRequest, Path]:
    """Return what was asked of an upload, and where its file lies."""
    request = ReplayRequest.model_validate_json((folder / "asked.json").read_bytes())
    return request, folder / request.file


def use_sent_name(text: str, request: ReplayRequest, path: Path) -> str:
    """Replace the path of an upload by the name under which it was sent."""
    return text.replace(str(path), request.name).replace(path.name, request.name)


@contextmanager
def named_as_sent(request: ReplayRequest, path: Path) -> Iterator[None]:
    """Let errors name the file as its sender did."""
    try:
        yield
    except BadInput as error:
        raise BadInput(use_sent_name(str(error), request, path)).because(error.code, **error.figures) from None


def _replay(
    request: ReplayRequest, path: Path, limits: ReadLimits, chosen: Callable[[list[str]], None], tick: Progress
) -> list[ReplayResult]:
    tick("reading the log", 0, 1)
    source = open_upload(request, path, limits)
    if source.header:
        check_header(source.header, request.name)
    candidates = collect_candidates(
        request.models or choose_models(source), {}, None, CandidateSpec("", baseline=request.baseline)
    )
    for each in candidates:
        check_options(each.kind, each.options)
    check_candidates([source], candidates)
    chosen([each.name for each in candidates])
    total = count_events(source)
    results, interrupted = replay_all(
        source,
        candidates,
        ScoredSpan(),
        request.max_bad_ratio,
        lambda share, examples: tick("replaying it", min(examples, total), total),
    )
    if interrupted:
        raise KeyboardInterrupt
    return results


def open_upload(request: ReplayRequest, path: Path, limits: ReadLimits) -> Source:
    """Open an upload within the limits. Raises BadInput."""
    check_file(path, limits)
    columns = ColumnChoice(request.drop, request.features)
    reads = ReadOptions(
        request.format, request.label, max_bad_ratio=request.max_bad_ratio, limits=limits, columns=columns
    )
    return replace(open_source(str(path), reads), name=request.name)


def count_events(source: Source) -> int:
    """Count what will be replayed before it is, so that the progress has an end that does not move.

    A cell with a line break in it counts twice, and an empty line once: the end comes a little earlier then.
    """
    events = source.header.get("event_count") or source.count
    if isinstance(events, int) and events > 0:
        return events
    if source.path is None or source.format == "parquet":
        return sum(1 for _ in source.instances())
    with open_bytes(source.path, source.reads.limits) as (file, _):
        lines = sum(1 for _ in file)
    return max(1, lines - 1 if source.header or source.format == "csv" else lines)


def choose_models(source: Source) -> list[str]:
    """Return kinds that can replay the source and are likely to do well; for our own log, its own kind."""
    if source.header:
        return [str(source.header["kind"])]
    if source.survey is not None:
        return ["classifier", "logistic"]
    if has_number_labels(source):
        return ["regressor"]
    return ["classifier", "knn"] if source.input == "text" else ["classifier", "logistic", "knn"]


def has_number_labels(source: Source) -> bool:
    """Return whether the labels are numbers to predict, rather than class names written as numbers."""
    lines = islice(source.lines(), 2 * MAX_SAMPLED)
    labels = [line.event.label for line in lines if isinstance(line, LoggedEvent)]
    try:
        values = {parse_number(label) for label in labels}
    except ValueError:
        return False
    return any(value != int(value) for value in values) or len(values) > max(30, len(labels) // 2)


def prefer_as_oom_victim() -> None:
    """Let the system end this process before the service if memory runs out."""
    with suppress(OSError):  # not every system has this file
        Path("/proc/self/oom_score_adj").write_text("1000")


def check_header(header: Mapping[str, object], name: str) -> None:
    """Check the model that a log of ours names. Raises BadInput."""
    kind, options, drift = header.get("kind"), header.get("options"), header.get("drift", "watch")
    if kind not in [*KINDS] or not isinstance(options, dict) or drift not in get_args(Drift):
        raise BadInput(f"{name}, line 1 names no model that is known here, or not its options: export the log again")
    check_options(kind, options)


def check_options(kind: object, options: Mapping[str, object]) -> None:
    """Raise BadInput for an option that names code, or builds an object, of the sender's choice."""
    try:
        check_untrusted_options(kind, options)
    except ValueError as error:
        raise refuse_option(str(error)) from None


def refuse_option(rule: str) -> BadInput:
    """Return the error for an option that is only for the command line."""
    return BadInput(f"of a log that is sent, {rule}; others are for `online replay`, where the code is")
