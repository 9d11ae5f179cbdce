"""Chooses a reply for a question, from weights and exemplars that no longer change.

    score(q, r) = LDA of the questions that r was right for     exact sums; the reply's own text counts as one
                + evidence of rated neighbours of q             signed exemplars, averaged, never summed
                + standing of r                                 its thumbs anywhere, if they tell replies apart
    same question before (cosine >= .999): the latest verdict decides at once
    similar question before (cosine >= .9): a reply that was rejected there more than liked is withheld

A policy (policies.py) chooses among the candidates.

Shapes: Q questions, R replies, D features, E exemplars.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Answer, Candidate, Options
from online.models.ranker.exemplars import (
    ExemplarIndex,
    Explanation,
    ScoreBreakdown,
    compute_evidence,
    find_nearest_rated,
    find_outvoted,
    find_verdicts,
    normalise_rows,
    stack_features,
)
from online.models.ranker.policies import Policy
from online.models.ranker.replies import Reply
from online.models.statistics.calibration import softmax
from online.models.statistics.exact import LinearWeights

EVIDENCE_GAIN = 100.0  # score units of LDA per unit of evidence
STANDING_GAIN = 40.0  # score units of LDA per unit of standing
SOFTMAX_SCALE = 40.0


@dataclass(frozen=True, slots=True)
class ReplyChooser:
    """What prediction needs. weights: of the sums. described_RD: the features of the replies' texts."""

    options: Options
    policy: Policy
    replies: Sequence[Reply]
    weights: LinearWeights
    described_RD: NDArray[np.int8]
    neighbours: ExemplarIndex

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """An answer for each question.

        keys: the random keys of the policy; without a key the best reply is chosen.
        """
        if not self.weights.active.any():
            return [Answer(None, (), abstained=True) for _ in inputs]
        x_QD = stack_features(inputs)
        unit_QD = normalise_rows(x_QD)
        lda_QR = x_QD.astype(np.float32) @ self.weights.matrix + self.weights.bias
        cosine_QE = self.neighbours.cosines(unit_QD)
        rows = zip(lda_QR, unit_QD, cosine_QE, keys or [None] * len(inputs), strict=True)
        return [self._answer(*each) for each in rows]

    def _answer(
        self,
        lda_R: NDArray[np.float32],
        unit_D: NDArray[np.float32],
        cosine_E: NDArray[np.float32],
        key: int | None,
    ) -> Answer:
        weights, neighbours = self.weights, self.neighbours
        evidence_R = compute_evidence(cosine_E, neighbours, len(lda_R))
        scores_R = lda_R + EVIDENCE_GAIN * evidence_R + STANDING_GAIN * neighbours.standing_R
        settled, forbidden = find_verdicts(cosine_E, neighbours)
        allowed_R = weights.active.copy()
        allowed_R[forbidden] = False
        if not allowed_R.any():
            return Answer(None, (), abstained=True)
        settled = [reply for reply in settled if allowed_R[reply]]
        withheld = [reply for reply in find_outvoted(cosine_E, neighbours, evidence_R) if reply not in settled]
        if allowed_R.sum() > allowed_R[withheld].sum():
            allowed_R[withheld] = False
        scores_R[settled[:1]] = scores_R[allowed_R].max() + SOFTMAX_SCALE * 10
        chances_R = softmax(np.where(allowed_R, scores_R / SOFTMAX_SCALE, -np.inf))
        order = np.argsort(-chances_R, kind="stable")[: self.options["candidates"]]
        candidates = tuple(
            Candidate(self.replies[r].id, float(chances_R[r]), self.replies[r].text) for r in order if allowed_R[r]
        )
        best = int(order[0])
        is_unfamiliar = self._familiarity(best, unit_D, cosine_E) < self.options["abstain_below"]
        if not settled and (is_unfamiliar or measure_lead(scores_R[allowed_R]) < self.options["abstain_margin"]):
            return Answer(None, candidates, candidates[0].score, abstained=True)
        if settled or key is None:
            return Answer(candidates[0].id, candidates, candidates[0].score)
        listed = order[: len(candidates)]
        doubts = np.zeros(len(listed)) if weights.doubt is None else weights.doubt[listed]
        chosen, propensity = self.policy.choose(chances_R[listed], scores_R[listed], doubts, key)
        return Answer(candidates[chosen].id, candidates, candidates[chosen].score, propensity)

    def explain(self, features: bytes, given: str | None, count: int) -> Explanation:
        """Explain a choice by the scores of `count` replies, `given` first, and `count` rated neighbours."""
        weights, neighbours = self.weights, self.neighbours
        if not self.replies:
            return Explanation(None, [], [])
        x_QD = stack_features([features])
        sums_R = (x_QD.astype(np.float32) @ weights.matrix + weights.bias)[0]
        cosine_E = neighbours.cosines(normalise_rows(x_QD))[0]
        evidence_R = EVIDENCE_GAIN * compute_evidence(cosine_E, neighbours, len(sums_R))
        standing_R = STANDING_GAIN * neighbours.standing_R
        scores_R = np.where(weights.active, sums_R + evidence_R + standing_R, -np.inf)
        ids = [reply.id for reply in self.replies]
        best = [int(r) for r in np.argsort(-scores_R, kind="stable") if np.isfinite(scores_R[r])]
        shown = sorted(best, key=lambda r: ids[r] != given)[:count]
        breakdowns = [
            ScoreBreakdown(ids[r], self.replies[r].text, float(sums_R[r]), float(evidence_R[r]), float(standing_R[r]))
            for r in shown
        ]
        nearest = find_nearest_rated(cosine_E, neighbours, ids, count)
        return Explanation(self._settled(cosine_E), breakdowns, nearest)

    def find_settled(self, questions: Sequence[bytes]) -> list[str | None]:
        """For each question, the active reply that the latest verdicts on it ask for."""
        cosine_QE = self.neighbours.cosines(normalise_rows(stack_features(questions)))
        return [self._settled(cosine_E) for cosine_E in cosine_QE]

    def _familiarity(self, reply: int, unit_D: NDArray[np.float32], cosine_E: NDArray[np.float32]) -> float:
        """Cosine to the nearest question, or text, that is known to belong to the reply."""
        positive_E = (self.neighbours.reply_E == reply) & (self.neighbours.reward_E > 0)
        near = normalise_rows(self.described_RD[reply : reply + 1])[0] @ unit_D
        return float(max(near, cosine_E[positive_E].max(initial=-1.0)))

    def _settled(self, cosine_E: NDArray[np.float32]) -> str | None:
        agreed, _ = find_verdicts(cosine_E, self.neighbours)
        return next((self.replies[reply].id for reply in agreed if self.replies[reply].is_active), None)


def measure_lead(scores: NDArray[Any]) -> float:
    """The lead of the best score over the next one; infinite for a single score."""
    if len(scores) < 2:
        return float("inf")
    next_best, best = np.partition(scores, -2)[-2:]
    return float(best - next_best)
