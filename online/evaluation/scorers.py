"""How a model scores the candidates of logged decisions, without having learned the decision itself.

    logged-scores   what was logged
    ridge           a ridge regression of the rewards for each action, by earlier decisions alone
    version:N       a version that was published; what it has learned of these decisions is said
    KIND            a model of this kind (ranker, classifier, ...) that replays the log: it knows at each decision what
                    was told before it was asked

A score is NaN where the model does not list the candidate.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

import numpy as np

from online.errors import BadInput
from online.evaluation.decisions import Decisions, Floats
from online.evaluation.formats import Bad
from online.evaluation.log import Asked, Told
from online.evaluation.outcomes import Tick, prequential
from online.evaluation.replay import TOGETHER, Contender, Replay
from online.evaluation.sources import Source
from online.models import KINDS, Answer, Model, create
from online.settings import ModelSettings
from online.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Scored:
    """doubts: standard deviations of the scores, where the model says how unsure it is."""

    scores_M: Floats
    doubts_M: Floats | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Version:
    """A published version, restored. feature_epoch: of the inputs that it reads."""

    number: int
    model: Model
    learned_until: int
    feature_epoch: str


@dataclass(slots=True)
class Scorers:
    """Every MODEL there is for one log. source: the log, where it can be replayed. options: of a KIND."""

    decisions: Decisions
    tick: Tick
    source: Source | None = None
    version: Callable[[int], Version] | None = None
    options: Mapping[str, Any] | None = None
    known: dict[str, Scored] | None = None

    def scored(self, model: str) -> Scored:
        """Raises BadInput for a model that there is not."""
        self.known = self.known or {}
        if model not in self.known:
            self.known[model] = self._scored(model)
        return self.known[model]

    def _scored(self, model: str) -> Scored:
        if model == "logged-scores":
            if np.isnan(self.decisions.scores_M).all():
                raise BadInput("this log has no scores of its candidates: score them by another model, like ridge")
            return Scored(self.decisions.scores_M)
        if model == "ridge":
            return Scored(*prequential(self.decisions, self.tick))
        if model.startswith("version:"):
            return self._by_version(model.removeprefix("version:"))
        if model in KINDS:
            return self._by_replay(model)
        raise BadInput(f"there is no model {model!r}: logged-scores, ridge, version:N or one of {', '.join(KINDS)}")

    def _by_version(self, number: str) -> Scored:
        if self.source is None or not self.source.header or self.version is None or not number.isdigit():
            raise BadInput(f"version:{number}: a version is a number, and scores a log of its own service")
        found, decisions = self.version(int(number)), self.decisions
        logged = self.source.header["feature_epoch"]
        if found.feature_epoch != logged:
            raise BadInput(f"version {number} reads features of {found.feature_epoch}; this log has those of {logged}")
        answers = list[Answer]()
        for start in range(0, len(decisions), TOGETHER):
            self.tick(f"version {number}", start, len(decisions))
            answers += found.model.predict(decisions.features[start : start + TOGETHER])
        knew = int((decisions.told_N <= found.learned_until).sum())
        told = f"version {number} has learned the outcome of {knew:,} of these decisions: that flatters it"
        return Scored(
            listed(decisions, dict(zip(decisions.ids, answers, strict=True))), warnings=(told,) if knew else ()
        )

    def _by_replay(self, kind: str) -> Scored:
        if self.source is None:
            raise BadInput(f"a {kind} learns by replaying a log, and a CSV cannot be replayed; score this one by ridge")
        try:
            replay = Replay(self.source, Contender(kind, every_candidate(kind, self.options or {})))
        except ValueError as error:
            raise BadInput(str(error)) from None
        wanted = set(self.decisions.ids)
        answers = {asked.id: answer for asked, answer in self._answers(replay, self.source) if asked.id in wanted}
        return Scored(listed(self.decisions, answers))

    def _answers(self, replay: Replay, source: Source) -> Iterator[tuple[Asked, Answer]]:
        """Everything that was asked, answered by what was told before."""
        bad, pupil = Bad(1.0), replay.pupil
        lines = source.lines(bad, lambda share: self.tick(f"replaying {pupil.kind}", int(1_000 * share), 1_000))
        while chunk := list(islice(lines, TOGETHER)):
            for told, together in groupby(replay.features.of(chunk, bad), lambda line: isinstance(line, Told)):
                group = list(together)
                if told:
                    learn(replay, [line for line in group if isinstance(line, Told)])
                    continue
                asked = [line for line in group if isinstance(line, Asked)]
                yield from zip(asked, pupil.model.predict([line.features or b"" for line in asked]), strict=True)


def of_snapshots(workspace: Workspace, spec: ModelSettings, number: int) -> Version:
    """Raises NotFound for a version that is not kept."""
    loaded = workspace.snapshots(spec.name).load(number)
    model = create(spec.kind, every_candidate(spec.kind, workspace.options(spec)))
    model.restore(loaded.parts)
    return Version(number, model, loaded.manifest.learned_until, loaded.manifest.feature_epoch)


def every_candidate(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """So that a ranker scores all of its replies, not the few that it lists."""
    if kind != "ranker":
        return dict(options)
    every = {**options, "candidates": 1_000_000}
    if challenger := options.get("challenger"):
        every["challenger"] = {**challenger, "options": every_candidate(kind, challenger.get("options", {}))}
    return every


def learn(replay: Replay, lines: Sequence[Told]) -> None:
    for line in lines:
        if line.refused is not None:
            replay.pupil.refused[line.entry.offset] = line.refused
    replay.pupil.apply([line.complete() for line in lines])


def listed(decisions: Decisions, answers: Mapping[str, Answer]) -> Floats:
    """[M]: the score that each candidate has in the answer to its decision."""
    scores_M = np.full(len(decisions.action_M), np.nan)
    for place, id in enumerate(decisions.ids):
        scores = {candidate[0]: candidate[1] for candidate in answers[id].candidates} if id in answers else {}
        start, stop = decisions.starts_N1[place : place + 2]
        names = (decisions.actions[action] for action in decisions.action_M[start:stop])
        scores_M[start:stop] = [scores.get(name, np.nan) for name in names]
    return scores_M
