"""A log that somebody sent to a service: replayed on the models they asked for, or on those that fit; one page.

asked.json --> what it is --> kinds, their options looked at --race--> report.html

What was sent is anybody's: what it names may choose among what is ours, and nothing of it is imported, opened or run.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from online.errors import BadInput
from online.evaluation.contenders import contenders
from online.evaluation.log import Told
from online.evaluation.race import Result, raced
from online.evaluation.replay import Contender, Span
from online.evaluation.report import write_report
from online.evaluation.sources import Reads, Source, open_source
from online.models import KINDS, challenger_of, number_of
from online.models.river import NAMED
from online.schemas import ReplayAsked
from online.settings import Drift

Tick = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much
PARTS = 1_000
LOOKED_AT = 300  # labels, to see whether they are numbers
LONGEST = 200  # text among an estimator's parameters


def replay_sent(folder: Path, chosen: Callable[[list[str]], None], tick: Tick) -> None:
    """chosen: told on which models. Raises BadInput, in which the log has the name that its sender gave it."""
    asked = ReplayAsked.model_validate_json((folder / "asked.json").read_bytes())
    path = folder / asked.file

    def named(text: str) -> str:
        return text.replace(str(path), asked.name).replace(path.name, asked.name)

    try:
        results = _played(asked, path, chosen, tick)
    except BadInput as error:
        raise BadInput(named(str(error))) from None
    results = [replace(each, failure=named(each.failure)) if each.failure is not None else each for each in results]
    if all(each.report is None for each in results):
        raise BadInput("; ".join(f"{each.contender.name}: {each.failure}" for each in results))
    aside = folder / ".report.html"
    write_report(results, asked.name, False, aside)
    os.replace(aside, folder / "report.html")


def _played(asked: ReplayAsked, path: Path, chosen: Callable[[list[str]], None], tick: Tick) -> list[Result]:
    tick("looking at it", 0, PARTS)
    source = open_source(str(path), Reads(asked.format, asked.label, max_bad_ratio=asked.max_bad_ratio))
    source = replace(source, name=asked.name)
    if source.header:
        check_header(source.header, asked.name)
    on = contenders(asked.models or fitting(source), {}, None, Contender(""))
    for each in on:
        check_options(each.kind, each.options)
    chosen([each.name for each in on])
    results, interrupted = raced(
        source, on, Span(), asked.max_bad_ratio, lambda share, examples: tick("replaying it", int(PARTS * share), PARTS)
    )
    if interrupted:
        raise KeyboardInterrupt
    return results


def fitting(source: Source) -> list[str]:
    """Kinds that can replay it, and are likely to do well: of a log of ours, the one that wrote it."""
    if source.header:
        return [str(source.header["kind"])]
    if source.survey is not None:
        return ["classifier", "logistic"]
    if tells_numbers(source):
        return ["regressor"]
    return ["classifier", "knn"] if source.input == "text" else ["classifier", "logistic", "knn"]


def tells_numbers(source: Source) -> bool:
    """Whether its labels are numbers to be predicted, rather than names that are written as numbers."""
    lines = islice(source.lines(), 2 * LOOKED_AT)
    labels = [line.entry.event.label for line in lines if isinstance(line, Told)]
    try:
        values = {number_of(label) for label in labels}
    except ValueError:
        return False
    return any(value != int(value) for value in values) or len(values) > max(30, len(labels) // 2)


# what a sender may say


def check_header(header: Mapping[str, Any], name: str) -> None:
    """A log brings its model's kind and options with it. Raises BadInput."""
    kind, options, drift = header.get("kind"), header.get("options"), header.get("drift", "watch")
    if kind not in [*KINDS] or not isinstance(options, dict) or drift not in get_args(Drift):
        raise BadInput(f"{name}, line 1 names no model that is known here, or not its options: export it again")
    check_options(kind, options)


def check_options(kind: Any, options: Mapping[str, Any]) -> None:
    """Raises BadInput for one that names code, or builds an object, of the sender's choice."""
    if kind == "tower" and options.get("network", "mlp") not in ("mlp", "cnn"):
        raise refused("the option 'network' of a tower is mlp or cnn")
    if kind == "river":
        check_river(options.get("estimator", "softmax"), options.get("params", {}))
    if "challenger" in options:
        told = options["challenger"]
        if not isinstance(told, dict) or not isinstance(told.get("options", {}), dict):
            raise refused("the option 'challenger' is a table, and so are its options")
        check_options(challenger_of(kind, options), told.get("options", {}))
    if kind == "best_of":
        told = options.get("contenders", {})
        if not isinstance(told, dict) or not all(isinstance(each, dict) for each in told.values()):
            raise refused("the option 'contenders' is a table of tables")
        for each in told.values():
            check_options(each.get("kind"), each)


def check_river(estimator: Any, params: Any) -> None:
    if not isinstance(estimator, str) or estimator not in NAMED:
        raise refused(f"the option 'estimator' is one of {', '.join(NAMED)}")
    plain = isinstance(params, dict) and all(
        value is None or isinstance(value, (bool, int, float)) or (isinstance(value, str) and len(value) <= LONGEST)
        for value in params.values()
    )
    if not plain:
        raise refused("the option 'params' holds numbers, texts, true and false")


def refused(rule: str) -> BadInput:
    return BadInput(f"of a log that is sent, {rule}; others are for `online replay`, where the code is")


def first_to_go() -> None:
    """Where memory is short, the system ends this process before the service beside it."""
    with suppress(OSError):  # not every system can be told
        Path("/proc/self/oom_score_adj").write_text("1000")
