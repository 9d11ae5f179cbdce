"""Chooses a reply from a repertoire, and learns from thumbs and from being taught.

    score(q, r) = LDA of the questions r was right for          exact sums; the reply's own text as one example
                + evidence of rated neighbours of q             signed exemplars, averaged, never piled up
                + standing of r                                 its thumbs anywhere, where they tell replies apart
    q asked before (cosine >= .999): the last thing said about it decides at once
    q asked almost so (cosine >= .9): a reply that was rejected there more than liked is withheld

A 👍 and a correction are positives; a 👎 is negative evidence in that neighbourhood and forbids the reply for that very
question until somebody contradicts it. Among the candidates a policy (policies.py) chooses. Shapes: Q questions, R replies, D features, E exemplars.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models import (
    Answer,
    BadExample,
    Candidate,
    Example,
    Options,
    Part,
    State,
    check_limits,
    packed,
    take,
    unpacked,
)
from online.models.calibration import softmax
from online.models.encoder import TEXT_WIDTH, text_epoch
from online.models.exact import ExactStatistics, LinearWeights, solve_slda
from online.models.exemplars import (
    Exemplar,
    Exemplars,
    Ground,
    Neighbours,
    Why,
    chunk_number,
    evidence,
    exemplar_of,
    exemplars_of,
    features_of,
    last_words,
    outvoted,
    unit_rows,
    witnesses,
)
from online.models.policies import POLICY_OPTIONS, Policy

EVIDENCE_GAIN = 100.0  # in LDA score units, for one full agreement
STANDING_GAIN = 40.0  # likewise
SOFTMAX_SCALE = 40.0
PROBES = 32

OPTIONS: dict[str, Any] = {
    "encoder": "",  # sha256 of the tuned encoder whose features these are; "": the frozen one
    "shrinkage": 2.5,  # of the covariance, in examples per feature
    "abstain_below": 0.38,  # cosine to the nearest thing known about the chosen reply
    "abstain_margin": 4.0,  # lead of the chosen reply over the next one, in score units: below it, it is a guess
    "candidates": 5,  # replies listed in a prediction
    "max_replies": 5_000,
    "max_exemplars": 20_000,  # the newest are kept; corrections outlive thumbs
    **POLICY_OPTIONS,
}
LIMITS = {
    "shrinkage": (0.0, 1e6),
    "abstain_below": (-1e6, 1e6),
    "abstain_margin": (-1e6, 1e6),
    "candidates": (1, 1e6),
    "max_replies": (1, 1e6),
    "max_exemplars": (1, 1e6),
}


@dataclass(slots=True)
class Reply:
    """One of the repertoire. All that was said about it is kept by offset, so that any of it can be taken back.

    wordings: offset -> (text, its features); changes: offset -> whether it was restored (True) or retired (False).
    """

    id: str
    wordings: dict[int, tuple[str, bytes]]
    changes: dict[int, bool]

    @property
    def gone(self) -> bool:
        return not self.wordings

    @property
    def text(self) -> str:
        return "" if self.gone else self.wordings[max(self.wordings)][0]

    @property
    def features(self) -> bytes:
        return bytes(TEXT_WIDTH) if self.gone else self.wordings[max(self.wordings)][1]

    @property
    def active(self) -> bool:
        changes = dict.fromkeys(self.wordings, True) | self.changes
        return not self.gone and changes[max(changes)]

    def memory(self) -> list[Any]:
        """As JSON; `recalled` is its inverse."""
        wordings = [[at, text, features.hex()] for at, (text, features) in self.wordings.items()]
        return [self.id, wordings, list(self.changes.items())]

    @classmethod
    def recalled(cls, id: str, wordings: list[Any], changes: list[Any]) -> "Reply":
        return cls(id, {at: (text, bytes.fromhex(features)) for at, text, features in wordings}, dict(changes))


class Ranker:
    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = take(options, OPTIONS)
        check_limits(self.options, LIMITS)
        self.policy = Policy.of(self.options)
        self.device = device
        self.replies: list[Reply] = []  # append-only: an index never changes its meaning
        self.statistics = ExactStatistics(TEXT_WIDTH, device)
        self.exemplars = Exemplars()
        self.exemplars_digest = 0  # multiset hash: the sum of theirs modulo 2^256 (Clarke et al. 2003)
        self.evicted = False
        self._served: tuple[LinearWeights, NDArray[np.int8], Neighbours] | None = None

    @property
    def subtracts(self) -> bool:
        """Once an exemplar was given up for room, only a replay knows what would have been kept."""
        return not self.evicted

    def feature_epoch(self) -> str:
        return text_epoch(self.options["encoder"])

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        if not self.replies:
            return [Answer(None, (), abstained=True) for _ in inputs]
        weights, described_RD, neighbours = self._solved()
        if not weights.active.any():
            return [Answer(None, (), abstained=True) for _ in inputs]
        x_QD = features_of(inputs)
        unit_QD = unit_rows(x_QD)
        lda_QR = x_QD.astype(np.float32) @ weights.matrix + weights.bias
        near_QR = unit_QD @ unit_rows(described_RD).T
        cosine_QE = neighbours.cosines(unit_QD)
        asked = zip(lda_QR, near_QR, cosine_QE, keys or [None] * len(inputs), strict=True)
        return [self._answer(*each, weights, neighbours) for each in asked]

    def _answer(
        self,
        lda_R: NDArray[np.float32],
        near_R: NDArray[np.float32],
        cosine_E: NDArray[np.float32],
        key: int | None,
        weights: LinearWeights,
        neighbours: Neighbours,
    ) -> Answer:
        evidence_R = evidence(cosine_E, neighbours, len(lda_R))
        scores_R = lda_R + EVIDENCE_GAIN * evidence_R + STANDING_GAIN * neighbours.standing_R
        settled, forbidden = last_words(cosine_E, neighbours)
        allowed_R = weights.active.copy()
        allowed_R[forbidden] = False
        if not allowed_R.any():
            return Answer(None, (), abstained=True)
        settled = [reply for reply in settled if allowed_R[reply]]
        withheld = [reply for reply in outvoted(cosine_E, neighbours, evidence_R) if reply not in settled]
        if allowed_R.sum() > allowed_R[withheld].sum():
            allowed_R[withheld] = False
        scores_R[settled[:1]] = scores_R[allowed_R].max() + SOFTMAX_SCALE * 10
        chances_R = softmax(np.where(allowed_R, scores_R / SOFTMAX_SCALE, -np.inf))
        order = np.argsort(-chances_R, kind="stable")[: self.options["candidates"]]
        candidates = tuple(
            Candidate(self.replies[r].id, float(chances_R[r]), self.replies[r].text) for r in order if allowed_R[r]
        )
        best = int(order[0])
        strange = self._familiarity(best, near_R, cosine_E, neighbours) < self.options["abstain_below"]
        if not settled and (strange or lead(scores_R[allowed_R]) < self.options["abstain_margin"]):
            return Answer(None, candidates, candidates[0].score, abstained=True)
        if settled or key is None:
            return Answer(candidates[0].id, candidates, candidates[0].score)
        listed = order[: len(candidates)]
        doubts = np.zeros(len(listed)) if weights.doubt is None else weights.doubt[listed]
        chosen, propensity = self.policy.choose(chances_R[listed], scores_R[listed], doubts, key)
        return Answer(candidates[chosen].id, candidates, candidates[chosen].score, propensity)

    def explain(self, features: bytes, given: str | None, count: int) -> Why:
        """Why a question gets its reply: `count` replies, the given one first, and as many rated questions nearby."""
        weights, _, neighbours = self._solved()
        if not self.replies:
            return Why(None, [], [])
        x_QD = features_of([features])
        sums_R = (x_QD.astype(np.float32) @ weights.matrix + weights.bias)[0]
        cosine_E = neighbours.cosines(unit_rows(x_QD))[0]
        evidence_R = EVIDENCE_GAIN * evidence(cosine_E, neighbours, len(sums_R))
        standing_R = STANDING_GAIN * neighbours.standing_R
        scores_R = np.where(weights.active, sums_R + evidence_R + standing_R, -np.inf)
        ids = [reply.id for reply in self.replies]
        best = [int(r) for r in np.argsort(-scores_R, kind="stable") if np.isfinite(scores_R[r])]
        shown = sorted(best, key=lambda r: ids[r] != given)[:count]
        grounds = [
            Ground(ids[r], self.replies[r].text, float(sums_R[r]), float(evidence_R[r]), float(standing_R[r]))
            for r in shown
        ]
        return Why(self._settled(cosine_E, neighbours), grounds, witnesses(cosine_E, neighbours, ids, count))

    def _familiarity(
        self, reply: int, near_R: NDArray[np.float32], cosine_E: NDArray[np.float32], neighbours: Neighbours
    ) -> float:
        """Cosine to the nearest thing known to belong to the reply."""
        own_E = (neighbours.reply_E == reply) & (neighbours.reward_E > 0)
        return float(max(near_R[reply], cosine_E[own_E].max(initial=-1.0)))

    def _solved(self) -> tuple[LinearWeights, NDArray[np.int8], Neighbours]:
        if self._served is None:
            described_RD = features_of([reply.features for reply in self.replies])
            weights = solve_slda(self.statistics, self.options["shrinkage"], priors=False, described=described_RD)
            weights.active[:] = [reply.active for reply in self.replies]
            self._served = (
                weights,
                described_RD,
                Neighbours.of(list(self.exemplars.parts().values()), len(self.replies)),
            )
        return self._served

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        self.check(examples)
        self._served = None
        positives = [example for example in examples if self._apply(example)]
        self._count(positives)

    def _apply(self, example: Example) -> bool:
        """Everything but the sums; True for what belongs into them."""
        if example.kind == "reply":
            self._add_reply(example)
            return False
        place = self.statistics.add_label(example.label)
        if example.kind in ("retire", "restore"):
            self.replies[place].changes[example.offset] = example.kind == "restore"
            return False
        exemplar = exemplar_of(example, place)
        self.exemplars.add(exemplar)
        self._sum_digest(exemplar, 1)
        if self.exemplars.count > self.options["max_exemplars"]:
            self._evict()
        return exemplar.reward > 0

    def _add_reply(self, example: Example) -> None:
        place = self.statistics.add_label(example.label)
        if place == len(self.replies):
            self.replies.append(Reply(example.label, {}, {}))
        self.replies[place].wordings[example.offset] = example.text, example.features

    def _evict(self) -> None:
        oldest = self.exemplars.oldest()
        self.exemplars.remove(oldest.offset)
        self._sum_digest(oldest, -1)
        self.evicted = True

    def unlearn(self, examples: Sequence[Example]) -> None:
        self._served = None
        for example in examples:
            place = self.statistics.index(example.label)
            assert place is not None, "what is taken back was learned"
            if example.kind == "reply":
                self.replies[place].wordings.pop(example.offset, None)
                self._forget_before(place, min(self.replies[place].wordings, default=None))
            elif example.kind in ("retire", "restore"):
                self.replies[place].changes.pop(example.offset, None)
            else:
                self._forget(example.offset)

    def _forget_before(self, place: int, first: int | None) -> None:
        """Drop what was said about a reply before its first wording: it would have been refused."""
        reply = self.replies[place]
        reply.changes = {at: active for at, active in reply.changes.items() if first is not None and at > first}
        for exemplar in self.exemplars.all():
            if exemplar.reply == place and (first is None or exemplar.offset < first):
                self._forget(exemplar.offset)

    def _forget(self, offset: int) -> None:
        """Without evictions every exemplar is here, but for those that left with their reply."""
        gone = self.exemplars.remove(offset)
        if gone is not None:
            self._sum_digest(gone, -1)
            if gone.reward > 0:
                self.statistics.add(features_of([gone.features]), [gone.reply], times=-1)

    def _count(self, examples: Sequence[Example]) -> None:
        if examples:
            classes = [self.statistics.add_label(example.label) for example in examples]
            self.statistics.add(features_of([example.features for example in examples]), classes)

    def _sum_digest(self, exemplar: Exemplar, times: int) -> None:
        own = exemplar.digest(self.replies[exemplar.reply].id)
        self.exemplars_digest = (self.exemplars_digest + times * own) % 2**256

    def check(self, examples: Sequence[Example]) -> None:
        known = {reply.id for reply in self.replies if not reply.gone}
        for example in examples:
            if len(example.features) != TEXT_WIDTH and example.kind not in ("retire", "restore"):
                raise BadExample(f"features of {len(example.features)} bytes where {TEXT_WIDTH} are expected")
            if example.kind == "reply":
                known.add(example.label)
            elif example.label not in known:
                raise BadExample(f"there is no reply {example.label!r} to learn about")
        if len(known) > self.options["max_replies"]:
            raise BadExample(f"more than {self.options['max_replies']} replies (option max_replies)")

    # state

    def fingerprint(self) -> str:
        seen = hashlib.sha256(self.statistics.digest())
        seen.update(self.exemplars_digest.to_bytes(32, "little"))
        for reply in sorted((reply for reply in self.replies if not reply.gone), key=lambda reply: reply.id):
            seen.update(repr((reply.id, sorted(reply.wordings.items()), sorted(reply.changes.items()))).encode())
        return seen.hexdigest()

    def drifted(self, label: str | None, since: int) -> None:
        """It has no windows to shorten."""

    def facts(self) -> Mapping[str, float]:
        return {}

    def probes(self) -> list[tuple[bytes, str | None]]:
        """The newest taught questions, each with the reply last settled on for it and not forbidden since."""
        newest = nlargest(4 * PROBES, self.exemplars.taught)  # some may be about the same question
        questions = list(dict.fromkeys(self.exemplars.taught[offset].features for offset in newest))[:PROBES]
        _, _, neighbours = self._solved()
        cosines_QE = neighbours.cosines(unit_rows(features_of(questions)))
        settled = [self._settled(cosine_E, neighbours) for cosine_E in cosines_QE]
        return [(asked, reply) for asked, reply in zip(questions, settled, strict=True) if reply is not None]

    def _settled(self, cosine_E: NDArray[np.float32], neighbours: Neighbours) -> str | None:
        agreed, _ = last_words(cosine_E, neighbours)
        return next((self.replies[reply].id for reply in agreed if self.replies[reply].active), None)

    def state(self, serving_only: bool = False) -> State:
        weights, described_RD, _ = self._solved()
        meta = packed([[reply.id, reply.text] for reply in self.replies])
        solved = {
            "matrix": weights.matrix,
            "bias": weights.bias,
            "active": weights.active,
            "described": described_RD,
            "meta": meta,
        }
        if weights.doubt is not None:
            solved["doubt"] = weights.doubt
        parts = {"weights": Part(solved, serving=True), **self.exemplars.parts()}
        if not serving_only:
            memory = {"replies": [reply.memory() for reply in self.replies], "evicted": self.evicted}
            parts["statistics"] = Part({**self.statistics.tensors(), "memory": packed(memory)}, serving=False)
        return parts

    def restore(self, state: State) -> None:
        solved = state["weights"].tensors
        described_RD = solved["described"]
        names = unpacked(solved["meta"])
        self.replies = [
            Reply(id, {0: (text, row.tobytes())}, {}) for (id, text), row in zip(names, described_RD, strict=True)
        ]
        chunks = [state[name] for name in sorted(state, key=chunk_number) if name.startswith("exemplars-")]
        self._served = (
            LinearWeights(solved["matrix"], solved["bias"], solved["active"], solved.get("doubt")),
            described_RD,
            Neighbours.of(chunks, len(self.replies)),
        )
        if "statistics" in state:
            self._resume(state["statistics"].tensors, chunks)

    def _resume(self, tensors: Any, chunks: Sequence[Part]) -> None:
        self.statistics = ExactStatistics.restored([reply.id for reply in self.replies], tensors, self.device)
        memory = unpacked(tensors["memory"])
        self.evicted = memory["evicted"]
        self.replies = [Reply.recalled(*reply) for reply in memory["replies"]]
        self.exemplars, self.exemplars_digest = Exemplars(), 0
        for part in chunks:
            for exemplar in exemplars_of(part):
                self.exemplars.add(exemplar)
                self._sum_digest(exemplar, 1)


def lead(scores: NDArray[Any]) -> float:
    """How far the best is ahead of the next one."""
    if len(scores) < 2:
        return float("inf")
    next_best, best = np.partition(scores, -2)[-2:]
    return float(best - next_best)
