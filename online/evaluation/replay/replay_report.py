"""The results of a replay: of one model, of one model among candidates, and of all models over a log."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.tasks import TaskSequence
from online.evaluation.sources.column_profile import ColumnProfile
from online.schemas.fields import Language
from online.schemas.json_values import JSONObject
from online.scoring.baseline_lead import Lead
from online.scoring.drift_changes import Alarm
from online.scoring.score import Figures, ScoreDetails


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The result of replaying one model.

    examples: scored outcomes of predictions, and labels that came with their input. events: all that
    were learned. asked: predictions answered; same_answers: those that the log's own model answered
    as it was served, None for another model. figures: by name; None if nothing was scored. bad: lines
    that could not be used. contents_from: the first offset of the log whose contents had not expired; 0 if none had.
    left_out: the columns that were no features, because only some were chosen. leads: how far each baseline is ahead.
    remedies: settings that help where one of them is far ahead. baseline_skipped: why no simple model ran beside it,
    if one should have. events_without_prediction: events about a prediction that does not stand before them, which were
    not learned. settings: with which it was replayed, see `ModelSetup.settings`.
    columns: what those of a table are, and how each is treated. unusable: the bad lines, by what is wrong, and the first of
    them. refused: how many examples the model did not learn, by the reason. outside: answers about inputs with a number outside
    the ranges that the model had seen. targets_outside: numbers to predict that it cut off. repeated_lines, missing_events,
    first_missing, missing_predictions: what a log of ours has twice or lacks, see `LogGaps`. errors: how often the code of
    the operator or of a library raised (answers, examples), and the first traceback; {} for never.
    """

    name: str
    kind: str
    examples: int
    events: int
    asked: int
    same_answers: int | None
    figures: Figures
    examples_per_second: float
    state_sha256: str
    drift: list[Alarm]
    bad: int
    details: ScoreDetails
    tasks: TaskSequence | None = None
    contents_from: int = 0
    left_out: list[str] = field(default_factory=list)
    leads: list[Lead] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)
    baseline_skipped: str = ""
    events_without_prediction: int = 0
    settings: JSONObject = field(default_factory=dict)
    columns: list[ColumnProfile] = field(default_factory=list)
    unusable: JSONObject = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    outside: int = 0
    targets_outside: int = 0
    repeated_lines: int = 0
    missing_events: int = 0
    first_missing: int = 0
    missing_predictions: int = 0
    errors: JSONObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A candidate's report, or the failure that ended it. comparison: the comparison with the champion, None for itself."""

    candidate: CandidateSpec
    report: ReplayReport | None
    failure: str | None
    comparison: JSONObject | None


@dataclass(frozen=True, slots=True)
class LogResults:
    """The results of every model over one log. interrupted: Ctrl-C ended the replay early."""

    log: str
    results: list[ReplayResult]
    interrupted: bool = False


WritePage = Callable[[LogResults, Path, Language], None]  # writes the results of one log as a page, in a language
