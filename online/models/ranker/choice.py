"""Chooses a reply for a question, from weights and exemplars that no longer change.

    score(q, r) = LDA of the questions that r was right for     exact sums; the reply's own text counts as one
                + evidence of rated neighbours of q             signed exemplars, averaged, never summed
                + thumbs of r                                   its thumbs anywhere, if they tell replies apart
                , swapped between two replies where a correction of scope reply says so (corrections.py)
    same question before (cosine >= .999): the latest verdict decides at once
    similar question before (cosine >= .9): a reply that was rejected there more than liked is withheld

A candidate's score is the chance that a person would thumb it up (chances.py). A policy (policies.py, optimism.py) may draw another
reply than the best one, from the plausible ones (exploration.py).

Shapes: Q questions, R replies, D features, E exemplars.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from online.models.contract import Answer, Candidate, Options
from online.models.ranker.corrections import (
    Supersessions,
    find_local_replies,
    find_reachable,
    limit_reach,
    redirect,
)
from online.models.ranker.exemplars import (
    ChoiceExplanation,
    ExemplarIndex,
    ScoreBreakdown,
    compute_evidence,
    find_nearest_rated,
    find_outvoted,
    find_verdicts,
    normalise_rows,
    stack_features,
)
from online.models.ranker.exploration import Support, find_optimistic_choice, find_plausible
from online.models.ranker.likeness import (
    SOFTMAX_SCALE,
    Likeness,
    Places,
    ScoredQuestion,
    estimate_chances,
    find_familiarities,
    mask_superseded,
    to_chances,
)
from online.models.ranker.policies import Policy
from online.models.ranker.replies import Reply
from online.models.statistics.exact import LinearWeights

EVIDENCE_GAIN = 100.0  # score units of LDA per unit of evidence
THUMBS_GAIN = 40.0  # score units of LDA per unit of thumbs


@dataclass(frozen=True, slots=True)
class ReplyChooser:
    """The published state that prediction needs. weights: of the sums. described_RD: the features of the replies' texts.

    texts_RD: the same as rows of length 1. centres_RD: int8, where the questions of each reply lie (likeness.py).

    supersessions: of the corrections of scope reply. local_R: replies that are given to single questions only.
    support: None for a policy that tries nothing.
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
        """Build a chooser from the parts of a published state."""
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
        """Return an answer for each question.

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
        scores_R = lda_R + EVIDENCE_GAIN * evidence_R + THUMBS_GAIN * neighbours.thumbs_R
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
        familiarity_R = find_familiarities(unit_D, self.texts_RD, cosine_E, neighbours, redirections)
        scored = ScoredQuestion(unit_D, cosine_E, evidence_R, scores_R, allowed_R, familiarity_R, redirections)
        answer, familiarity = self._best_answer(scored)
        if not settled and self._is_unsure(answer.score, familiarity, scored.lead):
            return Answer(None, answer.candidates, answer.score, abstained=True)
        if key is None or settled or redirections:
            return answer
        return self._draw(answer, scored, key)

    def _best_answer(self, scored: ScoredQuestion) -> tuple[Answer, float]:
        """Return the answer with the best reply, and how familiar that is."""
        listed, left_out = np.split(scored.ranked, [self.options["candidates"]])
        scores_K, likeness = scored.scores_R[listed], scored.compare(listed, self.centres_RD)
        chance_K = estimate_chances(scores_K, scored.lead, likeness)
        next_K = np.append(scores_K[1:], scored.scores_R[left_out[:1]] if len(left_out) else -np.inf)
        left = likeness.after_others(
            listed, mask_superseded(scored.familiarity_R, scored.redirections), scored.allowed_R
        )
        is_acceptable_K = find_acceptable(self.options, scores_K - next_K, scored.evidence_R[listed], left)
        acceptable = frozenset(self.replies[r].id for r in listed[is_acceptable_K])
        candidates = self._list_candidates(listed, chance_K)
        best = candidates[0]
        return Answer(best.id, candidates, best.score, acceptable=acceptable), float(likeness.familiarity_K[0])

    def _list_candidates(
        self, places: NDArray[np.intp], chances: NDArray[np.float32 | np.float64]
    ) -> tuple[Candidate, ...]:
        return tuple(
            Candidate(self.replies[r].id, float(chance), self.replies[r].text)
            for r, chance in zip(places, chances, strict=True)
        )

    def _draw(self, best: Answer, scored: ScoredQuestion, key: int) -> Answer:
        """Return an answer that the policy draws from the plausible replies, and lists them; `best` where nothing else is plausible."""
        if self.policy.is_greedy:
            return best
        most = self.options["candidates"]
        plausible = find_plausible(scored, self.centres_RD, self.neighbours, self.support, self.options)
        if min(len(plausible), most) < 2:
            return best
        tried = self._find_tried(scored, plausible)
        drawn = plausible[:most] if tried in plausible[:most] else np.append(plausible[: most - 1], tried)
        chosen, propensity = self._draw_place(drawn, tried, scored, key)
        if propensity == 1:
            return best
        chance_K = estimate_chances(scored.scores_R[drawn], scored.lead, scored.compare(drawn, self.centres_RD))
        candidates = self._list_candidates(drawn, chance_K)
        return replace(
            best,
            choice=candidates[chosen].id,
            candidates=candidates,
            score=candidates[chosen].score,
            propensity=propensity,
        )

    def _draw_place(self, drawn: Places, tried: int, scored: ScoredQuestion, key: int) -> tuple[int, float]:
        """Return the place of the policy's choice among the replies that can be drawn, and its propensity."""
        if self.policy.is_optimistic:
            return self.policy.draw_optimistic(int(np.flatnonzero(drawn == tried)[0]), len(drawn), key)
        doubts = np.zeros(len(drawn)) if self.weights.doubt is None else self.weights.doubt[drawn]
        return self.policy.choose(scored.shares[drawn], scored.scores_R[drawn], doubts, key)

    def _find_tried(self, scored: ScoredQuestion, plausible: Places) -> int:
        """Return the reply that the optimistic policy tries: mostly the best one."""
        if not self.policy.is_optimistic:
            return int(plausible[0])
        assert self.support is not None, "a policy that tries something counts the ratings"
        return find_optimistic_choice(scored, plausible, self.neighbours, self.support, self.policy.optimism)

    def _is_unsure(self, chance: float, familiarity: float, lead: float) -> bool:
        """Return whether the best reply is withheld, as it is probably not right."""
        options = self.options
        is_unlikely = chance < options["min_chance"] or familiarity < options["abstain_below"]
        return bool(is_unlikely or lead < options["abstain_margin"])

    def explain(self, features: bytes, given: str | None, count: int) -> ChoiceExplanation:
        """Explain a choice by the scores of `count` replies, `given` first, and `count` rated neighbours."""
        weights, neighbours = self.weights, self.neighbours
        if not self.replies:
            return ChoiceExplanation(None, [], [])
        x_QD = stack_features([features])
        sums_R = (x_QD.astype(np.float32) @ weights.matrix + weights.bias)[0]
        unit_QD = normalise_rows(x_QD)
        cosine_E = limit_reach(neighbours.cosines(unit_QD), neighbours)[0]
        evidence_R = EVIDENCE_GAIN * compute_evidence(cosine_E, neighbours, len(sums_R))
        thumbs_R = THUMBS_GAIN * neighbours.thumbs_R
        reachable_R = find_reachable(self.local_R, cosine_E, neighbours)
        allowed_R = weights.active & reachable_R
        before_R = sums_R + evidence_R + thumbs_R
        after_R = before_R.copy()
        redirect(after_R, self.supersessions.find(cosine_E, unit_QD[0], weights.active, reachable_R))
        moved_R, scores_R = after_R - before_R, np.where(allowed_R, after_R, -np.inf)
        ids = [reply.id for reply in self.replies]
        best = [int(r) for r in np.argsort(-scores_R, kind="stable") if np.isfinite(scores_R[r])]
        shown = sorted(best, key=lambda r: ids[r] != given)[:count]
        terms = sums_R, evidence_R, thumbs_R, moved_R
        breakdowns = [
            ScoreBreakdown(ids[r], self.replies[r].text, *(float(term_R[r]) for term_R in terms)) for r in shown
        ]
        nearest = find_nearest_rated(cosine_E, neighbours, ids, count)
        return ChoiceExplanation(self._settled(cosine_E), breakdowns, nearest)

    def find_settled(self, questions: Sequence[bytes]) -> list[str | None]:
        """For each question, the active reply that the latest verdicts on it ask for."""
        cosine_QE = self.neighbours.cosines(normalise_rows(stack_features(questions)))
        return [self._settled(cosine_E) for cosine_E in cosine_QE]

    def _settled(self, cosine_E: NDArray[np.float32]) -> str | None:
        agreed, _ = find_verdicts(cosine_E, self.neighbours)
        return next((self.replies[reply].id for reply in agreed if self.replies[reply].is_active), None)


Floats = NDArray[np.float32 | np.float64]


def find_acceptable(options: Options, leads_K: Floats, evidence_K: Floats, likeness: Likeness) -> NDArray[np.bool_]:
    """bool [K]: the candidates that are good enough to be given after the replies before them were rejected.

    A first answer is given only if something like the question is known to belong to it, if it leads the others, and if its
    chance reaches `min_chance`. The next one must do the same among those that are left, and no rated neighbour may speak
    against it: otherwise a thumb down would lead to something worse than an honest "I do not know".

    leads_K: of the score of each over the next one. likeness: with rivals among those after it.
    """
    is_likely_K = to_chances(leads_K, likeness) >= options["min_chance"]
    is_known_K = (likeness.familiarity_K >= options["abstain_below"]) & (leads_K >= options["abstain_margin"])
    accepted: NDArray[np.bool_] = is_likely_K & is_known_K & (evidence_K >= 0)
    return accepted
