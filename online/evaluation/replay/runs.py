"""Replays models over logs: in this process, or one process for each model."""

import time
from collections.abc import Callable, Sequence

from online.errors import BadInput
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.parallel import ParallelReplay
from online.evaluation.replay.replay import Replay, Span
from online.evaluation.replay.replay_report import LogResults, ReplayResult
from online.evaluation.sources.replay_source import Source
from online.models.lazy_torch import use_one_thread

Progress = Callable[[str, int, int], None]  # what is being done, how far, of how much


def replay_logs(
    sources: Sequence[Source], candidates: Sequence[CandidateSpec], span: Span, max_bad_ratio: float, tick: Progress
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
    """Return a function that reports the progress and the speed of one log among several."""
    started = time.monotonic()

    def at(share: float, examples: int) -> None:
        speed = examples / max(time.monotonic() - started, 1e-9)
        tick(f"{log}: {examples:,} examples, {speed:,.0f}/s", int(1_000 * (place + share)), 1_000 * of)

    return at


def replay_all(
    source: Source,
    candidates: Sequence[CandidateSpec],
    span: Span,
    max_bad_ratio: float,
    at: Callable[[float, int], None],
) -> tuple[list[ReplayResult], bool]:
    """Return each candidate's result, and whether Ctrl-C ended the replay early.

    A single candidate runs in this process. Raises BadInput if a source or a model cannot be used, or
    if too many lines of the source are bad.
    """
    if len(candidates) == 1:
        return replay_one(source, candidates[0], span, max_bad_ratio, at)
    race = ParallelReplay(source, candidates, span, max_bad_ratio)
    try:
        race.run(at)
        return race.results(), False
    except KeyboardInterrupt:
        return race.results(), True


def replay_one(
    source: Source, candidate: CandidateSpec, span: Span, max_bad_ratio: float, at: Callable[[float, int], None]
) -> tuple[list[ReplayResult], bool]:
    use_one_thread()
    try:
        replay = Replay(source, candidate, span, max_bad_ratio)
    except ValueError as error:
        raise BadInput(str(error)) from None
    interrupted = False
    try:
        replay.run(at)
    except KeyboardInterrupt:
        interrupted = True
    return [ReplayResult(candidate, replay.report(), None, None)], interrupted
