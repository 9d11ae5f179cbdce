"""Monitoring of one model: the verdict, drift alarms, the prequential curve, and what versions answer otherwise."""

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

from fastapi import Query, Response

from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.errors import NotFound
from online.plugins.monitoring.curve import CurveCounts, per_minute
from online.plugins.monitoring.health import ModelHealth, Ratings
from online.plugins.monitoring.model_monitoring import ModelMonitoring
from online.plugins.monitoring.schemas import CurveAnswer, DriftAnswer, HealthAnswer, JudgedAnswer, VersionChangesAnswer
from online.plugins.monitoring.verdict_words import word_reason, word_verdict
from online.plugins.monitoring.version_changes import MAX_QUESTIONS, AnswerChange, VersionChanges
from online.scoring.drift_changes import Alarm, AlarmGroup
from online.scoring.prequential import MAX_SEGMENTS
from online.scoring.verdict import Reason, VerdictInputs
from online.serving.model_runtime import ModelRuntime
from online.store.feedback import load_first_time
from online.store.usage.counts import UsageCounts, load_totals

router = Router()

MAX_JUDGED_OFFSETS = 200  # in one request


@router.get("/v1/models/{model}/drift", "predict", response_model=DriftAnswer)
async def list_drift(model: ModelDep) -> Response:
    """The newest alarms of the drift detectors, newest first."""
    name = model.spec.name
    ratings = await model.parts.find(ModelMonitoring).rate()
    changes = ratings.changes
    times = await model.read(lambda connection: [load_first_time(connection, name, each.since - 1) for each in changes])
    described = await asyncio.to_thread(describe_changes, model, ratings)
    described = [{**each, "since_at": at} for each, at in zip(described, times, strict=True)]
    alarms = sorted((alarm for each in changes for alarm in each.alarms), key=lambda each: (-each.offset, each.what))
    content = {"drift": [describe_alarm(alarm, ratings) for alarm in alarms], "changes": described}
    return json_response(content, headers=live_headers(model))


def describe_changes(model: ModelRuntime, ratings: Ratings) -> list[dict[str, object]]:
    """Slow the first time: it reads manifests."""
    recipe, live = model.live.encoder_config.recipe, model.live.current.version
    before = [model.snapshots.folder.newest_before(offset, recipe, live) for offset in ratings.suspect_from]
    return [describe_change(*pair, ratings) for pair in zip(ratings.changes, before, strict=True)]


def describe_alarm(alarm: Alarm, ratings: Ratings) -> dict[str, object]:
    """Return an alarm as the API shows it. noted_at: when its first feedback was given."""
    return {**asdict(alarm), "noted_at": ratings.noted_at[alarm]}


def describe_change(change: AlarmGroup, before: int | None, ratings: Ratings) -> dict[str, object]:
    """Return the alarms of one change as the API shows them, with the version from before it."""
    return {
        "since": change.since,
        "offset": change.offset,
        "noted_at": ratings.noted_at[change.alarms[0]],
        "alarms": [describe_alarm(alarm, ratings) for alarm in change.alarms],
        "version_before": None if before is None else str(before),
    }


@router.get("/v1/models/{model}/health", "predict", response_model=HealthAnswer)
async def get_health(model: ModelDep, runtime: RuntimeDep) -> Response:
    """The verdict on a model, with its reasons, worst first: whether it needs attention, does not learn, or is good.

    The newest judgements are compared with every stretch before, and with naive guessers, by tests that chance does
    not pass. The reasons have codes and figures; new codes may be added.
    """
    health, ratings = await model.parts.find(ModelMonitoring).assess(runtime.learner()), await load_ratings(model)
    return json_response(describe_health(health, ratings), headers=live_headers(model))


def describe_roll_back(ratings: Ratings) -> dict[str, object] | None:
    """Return the last roll back and what answers were worth since then; None without one."""
    done, judged = ratings.rolled_back, ratings.judged_since
    if done is None:
        return None
    return {"version": str(done.version), "since": done.since, "judged": None if judged is None else asdict(judged)}


async def load_ratings(model: ModelRuntime) -> UsageCounts:
    """Return what people say now about all answers there were."""
    await model.ratings.catch_up()
    counts: UsageCounts = await model.read(partial(load_totals, model=model.spec.name))
    return counts


def describe_reason(reason: Reason, facts: VerdictInputs) -> dict[str, object]:
    """Return a reason with its sentence in English and its figures."""
    sentence = word_reason(reason, facts)
    return {"code": reason.code, "level": reason.level, "sentence": sentence, "figures": dict(reason.figures)}


def describe_health(health: ModelHealth, counts: UsageCounts) -> dict[str, object]:
    """Return the verdict on a model with everything it rests on, as the API shows it."""
    verdict, facts, ratings = health.verdict, health.facts, health.ratings
    return {
        "status": verdict.status,
        "sentence": word_verdict(verdict, facts),
        "reasons": [describe_reason(reason, facts) for reason in verdict.reasons],
        "measure": "error" if facts.numbers else "right",
        "recent": None if ratings.recent is None else asdict(ratings.recent),
        "lifetime": None if ratings.lifetime is None else asdict(ratings.lifetime),
        "ratings": {"rated": counts.rated, "good": counts.good, "bad": counts.bad},
        "guessers": {name: stretch.mean for name, stretch in ratings.guessers.items()},
        "guesser_counts": {name: stretch.count for name, stretch in ratings.guessers.items()},
        "trend": [asdict(stretch) for stretch in ratings.trend],
        "last_roll_back": describe_roll_back(ratings),
        "version": str(facts.live),
        "newest_version": str(facts.newest),
        "learned_until": facts.learned_until,
        "head": facts.head,
        "counted_until": ratings.counted_until,
    }


@router.get("/v1/models/{model}/curve", "predict", response_model=CurveAnswer)
async def get_curve(
    model: ModelDep,
    points: Annotated[int, Query(ge=8, le=MAX_SEGMENTS, description="The largest number of points.")] = 256,
) -> Response:
    """The prequential curve. While a long log is being counted, it ends at `counted_until`; the event `counted` follows."""
    head = await asyncio.to_thread(model.stream.head)
    curve, until = await model.parts.find(ModelMonitoring).curve.summarize(
        lambda counts: (describe_curve(counts, points), counts.until)
    )
    ratings = await load_ratings(model)
    curve |= {"rated": ratings.rated, "right": ratings.good, "head": max(head, until)}
    return json_response(curve, headers=live_headers(model))


def describe_curve(counts: CurveCounts, points: int) -> dict[str, object]:
    """Return the prequential curve in at most `points` segments."""
    return {
        "measure": "error" if counts.numbers else "right",
        "counted_until": counts.until,
        "judged": counts.served.judged,
        "judged_right": counts.served.right,
        "feedback": counts.feedback,
        "feedback_per_minute": per_minute(counts.times, datetime.now(UTC)),
        "tallies": {name: asdict(tally) for name, tally in counts.tallies.items()},
        "points": [asdict(stretch) for stretch in counts.curve.segments(points)],
    }


@router.get("/v1/models/{model}/curve/judged", "predict", response_model=JudgedAnswer)
async def count_judged(
    model: ModelDep,
    offset: Annotated[
        list[int],
        Query(min_length=1, max_length=MAX_JUDGED_OFFSETS, description="The offset of an event; several can be given."),
    ],
) -> Response:
    """How many served answers had been judged up to an offset, exactly: the curve is thinned, and says so at some only."""
    judged = await model.parts.find(ModelMonitoring).curve.summarize(lambda counts: counts.judged_until(offset))
    return json_response({"judged": [judged[each] for each in offset]}, headers=live_headers(model))


@router.get("/v1/models/{model}/versions/{version}/changes", "curate", response_model=VersionChangesAnswer)
async def compare_versions(
    model: ModelDep,
    version: str,
    since: Annotated[
        str | None,
        Query(description="The earlier version; by default the one an hour before, or else the previous one."),
    ] = None,
    questions: Annotated[int, Query(ge=1, le=MAX_QUESTIONS, description="How many of the newest to compare.")] = 200,
) -> Response:
    """Which of the newest questions that were recorded this version answers otherwise than an earlier one.

    Both versions are loaded and answer now, without draws of a policy. The same question asked twice is one. Numbers that differ
    by one percent at most are the same answer.
    """
    number = await asyncio.to_thread(model.snapshots.labels.resolve, version)
    earlier = await asyncio.to_thread(find_earlier, model, number, since)
    found = await model.parts.find(ModelMonitoring).comparison.compare(number, earlier, questions)
    return json_response(describe_changed_answers(found), headers=live_headers(model))


def find_earlier(model: ModelRuntime, version: int, since: str | None) -> int:
    """Return the version to compare with. Raises NotFound and CorruptSnapshot."""
    snapshots, recipe = model.snapshots, model.live.encoder_config.recipe
    if since is not None:
        return snapshots.labels.resolve(since)
    created_at = datetime.fromisoformat(snapshots.folder.manifest(version).created_at)
    hour_before = snapshots.folder.newest_until((created_at - timedelta(hours=1)).isoformat(), recipe, version)
    previous = max((each for each in snapshots.folder.versions() if each < version), default=None)
    if hour_before is None and previous is None:
        raise NotFound(f"{model.spec.name} keeps no version before version {version} to compare it with")
    return hour_before or previous or version


def describe_changed_answers(found: VersionChanges) -> dict[str, object]:
    """Return the changes between two versions as the API shows them."""
    return {
        "version": str(found.version),
        "since": str(found.since),
        "questions": found.questions,
        "unchanged": found.questions - len(found.changes),
        "better": sum(change.is_better is True for change in found.changes),
        "worse": sum(change.is_better is False for change in found.changes),
        "changes": [describe_changed_answer(change) for change in found.changes],
    }


def describe_changed_answer(change: AnswerChange) -> dict[str, object]:
    """Return a question that two versions answer differently, with the newest feedback about it."""
    said = change.said
    return {
        "question": change.instance,
        "asked": change.asked,
        "asked_at": change.asked_at,
        "before": change.before.model_dump(),
        "after": change.after.model_dump(),
        "said": said and said.model_dump(),
        "better": change.is_better,
    }
