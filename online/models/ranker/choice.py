"""Chooses a reply for a question, from weights and exemplars that no longer change.

    score(q, r) = LDA of the questions that r was right for     exact sums; the reply's own text counts as one
                + evidence of rated neighbours of q             signed exemplars, averaged, never summed
                + standing of r                                 its thumbs anywhere, if they tell replies apart
                , swapped between two replies where a correction of scope reply says so (corrections.py)
    same question before (cosine >= .999): the latest verdict decides at once
    similar question before (cosine >= .9): a reply that was rejected there more than liked is withheld

A candidate's score is the chance that a person would thumb it up (chances.py). A policy (policies.py) chooses among the
candidates; the optimistic one (optimism.py) among all replies.

Shapes: Q questions, R replies, D features, E exemplars.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Answer, Candidate, Options
from online.models.ranker.chances import estimate_chances
from online.models.ranker.corrections import (
    Supersessions,
    find_local_replies,
    find_reachable,
    limit_reach,
    redirect,
)
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
from online.models.ranker.likeness import Likeness, find_familiarities, mask_superseded
from online.models.ranker.next_reply import find_acceptable
from online.models.ranker.optimism import find_optimistic_choice
from online.models.ranker.policies import Policy
from online.models.ranker.replies import Reply
from online.models.ranker.support import Support
from online.models.statistics.calibration import softmax
from online.models.statistics.exact import LinearWeights

EVIDENCE_GAIN = 100.0  # score units of LDA per unit of evidence
STANDING_GAIN = 40.0  # score units of LDA per unit of standing
SOFTMAX_SCALE = 40.0


@dataclass(frozen=True, slots=True)
class ReplyChooser:
    """What prediction needs. weights: of the sums. described_RD: the features of the replies' texts.

    texts_RD: the same as rows of length 1. centres_RD: int8, where the questions of each reply lie (likeness.py).

    supersessions: of the corrections of scope reply. local_R: replies that are given to single questions only.
    support: None in a snapshot of an earlier release, from which an optimistic policy chooses the best reply.
    """

    options: Options
    policy: Policy
    replies: Sequence[Reply]
    weights: LinearWeights
    described_RD: NDArray[np.int8]
    texts_RD: NDArray[np.float32]
    centres_RD: NDArray[np.int8]
    neighbours: ExemplarIndex
    supersessions: Supersessions
    local_R: NDArray[np.bool_]
    support: Support | None

    @classmethod
    def of(
        cls,
        options: Options,
        policy: Policy,
        replies: Sequence[Reply],
        weights: LinearWeights,
        described_RD: NDArray[np.int8],
        centres_RD: NDArray[np.int8],
        neighbours: ExemplarIndex,
        support: Support | None,
    ) -> Self:
        supersessions = Supersessions.of(neighbours, replies, described_RD)
        local_R = find_local_replies(neighbours, replies)
        return cls(
            options,
            policy,
            replies,
            weights,
            described_RD,
            normalise_rows(described_RD),
            centres_RD,
            neighbours,
            supersessions,
            local_R,
            support,
        )

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """An answer for each question.

        keys: the random keys of the policy; without a key the best reply is chosen.
        """
        if not self.weights.active.any():
            return [Answer(None, (), abstained=True) for _ in inputs]
        x_QD = stack_features(inputs)
        unit_QD = normalise_rows(x_QD)
        lda_QR = x_QD.astype(np.float32) @ self.weights.matrix + self.weights.bias
        cosine_QE = limit_reach(self.neighbours.cosines(unit_QD), self.neighbours)
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
        reachable_R = find_reachable(self.local_R, cosine_E, neighbours)
        redirections = self.supersessions.find(cosine_E, unit_D, weights.active, reachable_R)
        redirect(scores_R, redirections)
        allowed_R = weights.active & reachable_R
        settled, forbidden = find_verdicts(cosine_E, neighbours)
        allowed_R[forbidden] = False
        if not allowed_R.any():
            return Answer(None, (), abstained=True)
        settled = [reply for reply in settled if allowed_R[reply]]
        withheld = [reply for reply in find_outvoted(cosine_E, neighbours, evidence_R) if reply not in settled]
        if allowed_R.sum() > allowed_R[withheld].sum():
            allowed_R[withheld] = False
        scores_R[settled[:1]] = scores_R[allowed_R].max() + SOFTMAX_SCALE * 10
        chances_R = softmax(np.where(allowed_R, scores_R / SOFTMAX_SCALE, -np.inf))
        ranked = np.argsort(-np.where(allowed_R, scores_R, -np.inf), kind="stable")[: allowed_R.sum()]
        listed, left_out = np.split(ranked, [self.options["candidates"]])
        is_taught, tried = bool(settled or redirections), int(listed[0])
        if key is not None and not is_taught and self.policy.is_optimistic:
            tried = self._find_tried(chances_R, allowed_R, cosine_E)
            listed = listed if tried in listed else np.append(listed[:-1], tried)
        familiarity_R = find_familiarities(unit_D, self.texts_RD, cosine_E, neighbours, redirections)
        likeness = Likeness.of(unit_D, listed, familiarity_R, allowed_R, self.centres_RD, redirections)
        lead = measure_lead(scores_R[allowed_R])
        chance_K = estimate_chances(scores_R[listed], lead, likeness)
        candidates = tuple(
            Candidate(self.replies[r].id, float(chance), self.replies[r].text)
            for r, chance in zip(listed, chance_K, strict=True)
        )
        next_K = np.append(scores_R[listed[1:]], scores_R[left_out[:1]] if len(left_out) else -np.inf)
        left = likeness.after_others(listed, mask_superseded(familiarity_R, redirections), allowed_R)
        is_acceptable_K = find_acceptable(self.options, scores_R[listed] - next_K, evidence_R[listed], left)
        acceptable = frozenset(self.replies[r].id for r in listed[is_acceptable_K])
        if not settled and self._is_unsure(chance_K[0], likeness.familiarity_K[0], lead):
            return Answer(None, candidates, candidates[0].score, abstained=True)
        chosen, propensity = 0, 1.0
        if key is not None and not is_taught:
            chosen, propensity = self._draw(listed, tried, chances_R, scores_R, key)
        return Answer(candidates[chosen].id, candidates, candidates[chosen].score, propensity, acceptable=acceptable)

    def _draw(
        self,
        listed: NDArray[np.intp],
        tried: int,
        chances_R: NDArray[np.float64],
        scores_R: NDArray[np.floating[Any]],
        key: int,
    ) -> tuple[int, float]:
        """The place of the policy's choice among the listed replies, and its propensity."""
        if self.policy.is_optimistic:
            return self.policy.draw_optimistic(int(np.flatnonzero(listed == tried)[0]), len(listed), key)
        doubts = np.zeros(len(listed)) if self.weights.doubt is None else self.weights.doubt[listed]
        return self.policy.choose(chances_R[listed], scores_R[listed], doubts, key)

    def _find_tried(
        self, chances_R: NDArray[np.float64], allowed_R: NDArray[np.bool_], cosine_E: NDArray[np.float32]
    ) -> int:
        """The reply that the optimistic policy tries: mostly the best one."""
        if self.support is None or min(allowed_R.sum(), self.options["candidates"]) < 2:
            return int(chances_R.argmax())
        return find_optimistic_choice(
            chances_R, allowed_R, cosine_E, self.neighbours, self.support, self.policy.optimism
        )

    def _is_unsure(self, chance: float, familiarity: float, lead: float) -> bool:
        """Whether the best reply is withheld, as it is probably not right."""
        options = self.options
        is_unlikely = chance < options["min_chance"] or familiarity < options["abstain_below"]
        return bool(is_unlikely or lead < options["abstain_margin"])

    def explain(self, features: bytes, given: str | None, count: int) -> Explanation:
        """Explain a choice by the scores of `count` replies, `given` first, and `count` rated neighbours."""
        weights, neighbours = self.weights, self.neighbours
        if not self.replies:
            return Explanation(None, [], [])
        x_QD = stack_features([features])
        sums_R = (x_QD.astype(np.float32) @ weights.matrix + weights.bias)[0]
        unit_QD = normalise_rows(x_QD)
        cosine_E = limit_reach(neighbours.cosines(unit_QD), neighbours)[0]
        evidence_R = EVIDENCE_GAIN * compute_evidence(cosine_E, neighbours, len(sums_R))
        standing_R = STANDING_GAIN * neighbours.standing_R
        reachable_R = find_reachable(self.local_R, cosine_E, neighbours)
        allowed_R = weights.active & reachable_R
        before_R = sums_R + evidence_R + standing_R
        after_R = before_R.copy()
        redirect(after_R, self.supersessions.find(cosine_E, unit_QD[0], weights.active, reachable_R))
        moved_R, scores_R = after_R - before_R, np.where(allowed_R, after_R, -np.inf)
        ids = [reply.id for reply in self.replies]
        best = [int(r) for r in np.argsort(-scores_R, kind="stable") if np.isfinite(scores_R[r])]
        shown = sorted(best, key=lambda r: ids[r] != given)[:count]
        terms = sums_R, evidence_R, standing_R, moved_R
        breakdowns = [
            ScoreBreakdown(ids[r], self.replies[r].text, *(float(term_R[r]) for term_R in terms)) for r in shown
        ]
        nearest = find_nearest_rated(cosine_E, neighbours, ids, count)
        return Explanation(self._settled(cosine_E), breakdowns, nearest)

    def find_settled(self, questions: Sequence[bytes]) -> list[str | None]:
        """For each question, the active reply that the latest verdicts on it ask for."""
        cosine_QE = self.neighbours.cosines(normalise_rows(stack_features(questions)))
        return [self._settled(cosine_E) for cosine_E in cosine_QE]

    def _settled(self, cosine_E: NDArray[np.float32]) -> str | None:
        agreed, _ = find_verdicts(cosine_E, self.neighbours)
        return next((self.replies[reply].id for reply in agreed if self.replies[reply].is_active), None)


def measure_lead(scores: NDArray[Any]) -> float:
    """The lead of the best score over the next one; infinite for a single score."""
    if len(scores) < 2:
        return float("inf")
    next_best, best = np.partition(scores, -2)[-2:]
    return float(best - next_best)
