"""Scores the candidates of logged decisions with a model that has not learned the decision itself.

    logged-scores   the scores in the log
    ridge           a ridge regression of the rewards of each action, on earlier decisions only
    version:N       a published version; a warning counts the decisions that it has learned
    KIND            a model of this kind (ranker, classifier, ...) that replays the log: at each
                    decision it has learned the events before the prediction

A score is NaN if the model does not list the candidate.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import numpy as np

from online.errors import BadInput
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import CHUNK_LINES, Replay
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.log_format import LoggedEvent, LoggedPrediction
from online.evaluation.sources.replay_source import Source
from online.io.progress import Progress
from online.models import KINDS, Answer, Model, create, spec_of
from online.models.contract import Options
from online.models.lazy_torch import use_one_thread
from online.plugins.off_policy.decisions import Decisions, Floats
from online.plugins.off_policy.reward_model import predict_prequentially
from online.schemas.json_values import JSONObject
from online.settings import ModelSettings
from online.state.workspace import Workspace


@dataclass(frozen=True, slots=True)
class CandidateScores:
    """The scores of all candidates. doubts: their standard deviations, if the model gives them."""

    scores_M: Floats
    doubts_M: Floats | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """A published version, restored. feature_epoch: the encoding of the inputs that it reads."""

    number: int
    model: Model
    learned_until: int
    feature_epoch: str


@dataclass(slots=True)
class Scorers:
    """The scores of every MODEL for one log, computed once.

    source: the log, if it can be replayed. options: for a model of a KIND.
    """

    decisions: Decisions
    tick: Progress
    source: Source | None = None
    version: Callable[[int], PublishedVersion] | None = None
    options: Options | None = None
    known: dict[str, CandidateScores] | None = None

    def scored(self, model: str) -> CandidateScores:
        """Return a model's scores. Raises BadInput if it is unknown or does not fit the log."""
        self.known = self.known or {}
        if model not in self.known:
            self.known[model] = self._scored(model)
        return self.known[model]

    def _scored(self, model: str) -> CandidateScores:
        if model == "logged-scores":
            if np.isnan(self.decisions.scores_M).all():
                raise BadInput("this log has no scores of its candidates; score them with another model, such as ridge")
            return CandidateScores(self.decisions.scores_M)
        if model == "ridge":
            return CandidateScores(*predict_prequentially(self.decisions, self.tick))
        if model.startswith("version:"):
            return self._by_version(model.removeprefix("version:"))
        if model in KINDS:
            return self._by_replay(model)
        raise BadInput(f"there is no model {model!r}: logged-scores, ridge, version:N or one of {', '.join(KINDS)}")

    def _by_version(self, number: str) -> CandidateScores:
        if self.source is None or not self.source.header or self.version is None or not number.isdigit():
            raise BadInput(f"version:{number}: the version must be a number, and the log one of its own service")
        version, decisions = self.version(int(number)), self.decisions
        logged = self.source.header["feature_epoch"]
        if version.feature_epoch != logged:
            raise BadInput(
                f"version {number} reads features of {version.feature_epoch}; this log has features of {logged}"
            )
        answers = list[Answer]()
        for start in range(0, len(decisions), CHUNK_LINES):
            self.tick(f"version {number}", start, len(decisions))
            answers += version.model.predict(decisions.features[start : start + CHUNK_LINES])
        learned_count = int((decisions.feedback_offsets_N <= version.learned_until).sum())
        warning = f"version {number} has learned the outcome of {learned_count:,} of these decisions: its estimate may be too high"
        scores_M = align_scores(decisions, dict(zip(decisions.ids, answers, strict=True)))
        return CandidateScores(scores_M, warnings=(warning,) if learned_count else ())

    def _by_replay(self, kind: str) -> CandidateScores:
        if self.source is None:
            raise BadInput(f"a {kind} learns by replaying a log, and a CSV cannot be replayed; score it with ridge")
        use_one_thread()
        try:
            replay = Replay(self.source, CandidateSpec(kind, list_every_candidate(kind, self.options or {})))
        except ValueError as error:
            raise BadInput(str(error)) from None
        ids = set(self.decisions.ids)
        answers = {line.id: answer for line, answer in self._answers(replay, self.source) if line.id in ids}
        return CandidateScores(align_scores(self.decisions, answers))

    def _answers(self, replay: Replay, source: Source) -> Iterator[tuple[LoggedPrediction, Answer]]:
        """Answer every prediction with what was learned from the events before it."""
        bad, training = BadLines(1.0), replay.training
        lines = source.lines(bad, lambda share: self.tick(f"replaying {training.kind}", int(1_000 * share), 1_000))
        while chunk := list(islice(lines, CHUNK_LINES)):
            encoded = replay.features.of(chunk, bad)
            for is_event, lines_of_kind in groupby(encoded, lambda line: isinstance(line, LoggedEvent)):
                group = list(lines_of_kind)
                if is_event:
                    learn_lines(replay, [line for line in group if isinstance(line, LoggedEvent)])
                    continue
                predictions = [line for line in group if isinstance(line, LoggedPrediction)]
                inputs = [line.features or b"" for line in predictions]
                yield from zip(predictions, training.model.predict(inputs), strict=True)


def load_version(workspace: Workspace, spec: ModelSettings, number: int) -> PublishedVersion:
    """Restore a published version. Raises NotFound if it is not stored."""
    loaded = workspace.snapshots(spec.name).folder.load(number)
    model = create(spec.kind, list_every_candidate(spec.kind, workspace.options(spec)))
    model.restore(loaded.parts)
    return PublishedVersion(number, model, loaded.manifest.learned_until, loaded.manifest.feature_epoch)


def list_every_candidate(kind: str, options: Options) -> JSONObject:
    """Return the options with which a ranker scores all of its replies, not only those it lists."""
    if not spec_of(kind).has_repertoire:
        return dict(options)
    unlimited = {**options, "candidates": 1_000_000}
    if challenger := options.get("challenger"):
        unlimited["challenger"] = {**challenger, "options": list_every_candidate(kind, challenger.get("options", {}))}
    return unlimited


def learn_lines(replay: Replay, lines: Sequence[LoggedEvent]) -> None:
    """Learn lines in order, also those that were refused."""
    for line in lines:
        if line.refused is not None:
            replay.training.refused[line.event.offset] = line.refused
    replay.training.apply([line.complete() for line in lines if not line.is_orphan])


def align_scores(decisions: Decisions, answers: Mapping[str, Answer]) -> Floats:
    """Return the score of each candidate [M] in the answer to its decision."""
    scores_M = np.full(len(decisions.action_M), np.nan)
    for place, id in enumerate(decisions.ids):
        scores = {candidate[0]: candidate[1] for candidate in answers[id].candidates} if id in answers else {}
        start, stop = decisions.starts_N1[place : place + 2]
        names = (decisions.actions[action] for action in decisions.action_M[start:stop])
        scores_M[start:stop] = [scores.get(name, np.nan) for name in names]
    return scores_M
