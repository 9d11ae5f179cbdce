"""Replays models over logs: in this process, or one process for each model."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from online.errors import BadInput
from online.evaluation.replay.baseline import is_learned_baseline
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.model_setup import prepare_process
from online.evaluation.replay.parallel import ParallelReplay
from online.evaluation.replay.replay import Replay, ScoredSpan
from online.evaluation.replay.replay_report import LogResults, ReplayResult
from online.evaluation.sources.replay_source import Source
from online.io.progress import Progress


def replay_logs(
    sources: Sequence[Source],
    candidates: Sequence[CandidateSpec],
    span: ScoredSpan,
    max_bad_ratio: float,
    tick: Progress,
) -> list[LogResults]:
    """Replay one log after another. Ctrl-C ends the current one, and the rest is left out.

    Raises BadInput if the only log cannot be replayed; among several logs it fails alone.
    """
    played = list[LogResults]()
    for place, source in enumerate(sources):
        at = track_progress(source.name, place, len(sources), tick)
        try:
            played.append(LogResults(source.name, *replay_all(source, candidates, span, max_bad_ratio, at)))
        except BadInput as error:
            if len(sources) == 1:
                raise
            played.append(LogResults(source.name, [ReplayResult(each, None, str(error), None) for each in candidates]))
        if played[-1].interrupted:
            break
    return played


def track_progress(log: str, place: int, of: int, tick: Progress) -> Callable[[float, int], None]:
    """Return a function that reports the progress, the speed and the time left of one log among several."""
    started = time.monotonic()

    def at(share: float, examples: int) -> None:
        seconds = max(time.monotonic() - started, 1e-9)
        left = describe_time_left(seconds, share, of - place - 1)
        tick(
            f"{log}: {examples:,} examples, {examples / seconds:,.0f}/s{left}", int(1_000 * (place + share)), 1_000 * of
        )

    return at


def describe_time_left(seconds: float, share: float, more: float = 0) -> str:
    """Return how long the rest takes if it goes on as before; "" while that is not known.

    seconds: taken so far, for this share. more: further work, as a multiple of the whole.
    """
    if share <= 0:
        return ""
    minutes, rest = divmod(round(seconds * (1 - share + more) / share), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours} h {minutes:02} min"] if hours else [f"{minutes} min {rest:02} s"] if minutes else [f"{rest} s"]
    return f", {parts[0]} left"


def replay_all(
    source: Source,
    candidates: Sequence[CandidateSpec],
    span: ScoredSpan,
    max_bad_ratio: float,
    at: Callable[[float, int], None],
) -> tuple[list[ReplayResult], bool]:
    """Return each candidate's result, and whether Ctrl-C ended the replay early.

    A single candidate runs in this process. Raises BadInput if a source or a model cannot be used, or
    if too many lines of the source are bad.
    """
    if any(is_learned_baseline(each.kind, each.options) for each in candidates):  # it need not run twice
        candidates = [replace(each, baseline=False) for each in candidates]
    if len(candidates) == 1:
        return replay_one(source, candidates[0], span, max_bad_ratio, at)
    race = ParallelReplay(source, candidates, span, max_bad_ratio)
    try:
        race.run(at)
        return race.results(), False
    except KeyboardInterrupt:
        return race.results(), True


def replay_one(
    source: Source, candidate: CandidateSpec, span: ScoredSpan, max_bad_ratio: float, at: Callable[[float, int], None]
) -> tuple[list[ReplayResult], bool]:
    """Replay one candidate to the end. Raises BadInput for options that the kind refuses."""
    prepare_process()
    try:
        replay = Replay(source, candidate, span, max_bad_ratio)
    except BadInput:
        raise
    except ValueError as error:
        raise BadInput(str(error)) from None
    interrupted = False
    try:
        replay.run(at)
    except KeyboardInterrupt:
        interrupted = True
    return [ReplayResult(candidate, replay.report(), None, None)], interrupted
