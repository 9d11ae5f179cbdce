"""Chooses a reply from a repertoire, and learns from thumbs and from being taught.

    score(q, r) = LDA of the questions r was right for          exact sums; the reply's own text as half an example
                + evidence of rated neighbours of q             signed exemplars, averaged, never piled up
    q asked before (cosine >= .999): the last thing said about it decides at once

A 👍 and a correction are positives; a 👎 is negative evidence in that neighbourhood and forbids the reply for that very
question until somebody contradicts it. Shapes: Q questions, R replies, D features, E exemplars.
"""

import hashlib
from collections.abc import Sequence
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
    Tensors,
    new_revision,
    packed,
    take,
    unpacked,
)
from online.models.encoder import TEXT_WIDTH, TextEncoder
from online.models.exact import ExactStatistics, LinearWeights, solve_slda

SAME_QUESTION = 0.999  # cosine from which two questions are one
NEAR_QUESTION = 0.5  # cosine from which a rated question says something about another
EVIDENCE_GAIN = 300.0  # in LDA score units, for one full agreement
EVIDENCE_DAMPING = 0.3
SOFTMAX_SCALE = 40.0
CHUNK = 256  # exemplars in one file: full ones are hard-linked from version to version
PROBES = 32

OPTIONS: dict[str, Any] = {
    "shrinkage": 2.5,  # of the covariance, in examples per feature
    "abstain_below": 0.38,  # cosine to the nearest thing known about the chosen reply
    "abstain_margin": 4.0,  # lead of the chosen reply over the next one, in score units: below it, it is a guess
    "candidates": 5,  # replies listed in a prediction
    "max_replies": 5_000,
    "max_exemplars": 20_000,  # the newest are kept; corrections outlive thumbs
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


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A rated question: a reward in [-127, 127] for one reply."""

    offset: int
    reply: int
    reward: int
    taught: bool
    features: bytes

    def digest(self, reply_id: str) -> int:
        data = f"{self.offset} {reply_id} {self.reward} {self.taught} ".encode() + self.features
        return int.from_bytes(hashlib.sha256(data).digest(), "little")


class Exemplars:
    """The learner's side: rated questions in chunks by offset, so that an old chunk's file never changes again."""

    def __init__(self) -> None:
        self.chunks: dict[int, dict[int, Exemplar]] = {}
        self.taught: dict[int, Exemplar] = {}  # by offset, like the next one; together they are everything
        self.rated: dict[int, Exemplar] = {}
        self._parts: dict[int, Part] = {}  # of the chunks that have not changed since

    @property
    def count(self) -> int:
        return len(self.taught) + len(self.rated)

    def add(self, exemplar: Exemplar) -> None:
        self.chunks.setdefault(exemplar.offset // CHUNK, {})[exemplar.offset] = exemplar
        (self.taught if exemplar.taught else self.rated)[exemplar.offset] = exemplar
        self._parts.pop(exemplar.offset // CHUNK, None)

    def remove(self, offset: int) -> Exemplar | None:
        """Take it out; None where it is not, or no longer, here."""
        number = offset // CHUNK
        gone = self.chunks.get(number, {}).pop(offset, None)
        if gone is not None:
            (self.taught if gone.taught else self.rated).pop(offset)
            self._parts.pop(number, None)
            if not self.chunks[number]:
                del self.chunks[number]
        return gone

    def all(self) -> list[Exemplar]:
        return [self.chunks[chunk][offset] for chunk in sorted(self.chunks) for offset in sorted(self.chunks[chunk])]

    def oldest(self) -> Exemplar:
        """The one to give up first: thumbs before corrections, then by age."""
        kind = self.rated or self.taught
        return kind[min(kind)]

    def parts(self) -> dict[str, Part]:
        return {f"exemplars-{chunk}": self._part(chunk) for chunk in sorted(self.chunks)}

    def _part(self, chunk: int) -> Part:
        if chunk not in self._parts:
            rows = [self.chunks[chunk][offset] for offset in sorted(self.chunks[chunk])]
            tensors: Tensors = {
                "features": np.frombuffer(b"".join(row.features for row in rows), np.int8).reshape(len(rows), -1),
                "offset": np.array([row.offset for row in rows], np.int64),
                "reply": np.array([row.reply for row in rows], np.int32),
                "reward": np.array([row.reward for row in rows], np.int8),
                "taught": np.array([row.taught for row in rows], np.bool_),
            }
            self._parts[chunk] = Part(tensors, serving=True, revision=new_revision())
        return self._parts[chunk]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The serving side: the same exemplars as arrays over E, and the cosine of Q questions to each of them."""

    chunks: Sequence[Part]
    offset_E: NDArray[np.int64]
    reply_E: NDArray[np.int32]
    reward_E: NDArray[np.float32]  # [-1, 1]
    taught_E: NDArray[np.bool_]

    @classmethod
    def of(cls, parts: Sequence[Part]) -> "Neighbours":
        def joined(name: str, kind: Any) -> NDArray[Any]:
            return np.concatenate([np.zeros(0, kind), *(part.tensors[name] for part in parts)]).astype(kind)

        reward = (joined("reward", np.float32) / 127).astype(np.float32)
        return cls(parts, joined("offset", np.int64), joined("reply", np.int32), reward, joined("taught", np.bool_))

    def cosines(self, unit_QD: NDArray[np.float32]) -> NDArray[np.float32]:
        columns = [unit_QD @ self._unit(part).T for part in self.chunks]
        return np.concatenate([np.zeros((len(unit_QD), 0), np.float32), *columns], 1)

    @staticmethod
    def _unit(part: Part) -> NDArray[np.float32]:
        if "unit" not in part.derived:
            part.derived["unit"] = unit_rows(part.tensors["features"])
        unit: NDArray[np.float32] = part.derived["unit"]
        return unit


def unit_rows(features: NDArray[np.int8]) -> NDArray[np.float32]:
    """int8 [N, D] -> float32 rows of length 1 (zero rows stay zero)."""
    rows = features.astype(np.float32)
    unit: NDArray[np.float32] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1).astype(np.float32)
    return unit


class Ranker:
    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = take(options, OPTIONS)
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
        return TextEncoder.epoch

    # predict

    def predict(self, inputs: Sequence[bytes]) -> list[Answer]:
        weights, described_RD, neighbours = self._solved()
        if not weights.active.any():
            return [Answer(None, (), abstained=True) for _ in inputs]
        x_QD = features_of(inputs)
        unit_QD = unit_rows(x_QD)
        lda_QR = x_QD.astype(np.float32) @ weights.matrix + weights.bias
        near_QR = unit_QD @ unit_rows(described_RD).T
        cosine_QE = neighbours.cosines(unit_QD)
        return [
            self._answer(*rows, weights.active, neighbours) for rows in zip(lda_QR, near_QR, cosine_QE, strict=True)
        ]

    def _answer(
        self,
        lda_R: NDArray[np.float32],
        near_R: NDArray[np.float32],
        cosine_E: NDArray[np.float32],
        active_R: NDArray[np.bool_],
        neighbours: Neighbours,
    ) -> Answer:
        scores_R = lda_R + EVIDENCE_GAIN * evidence(cosine_E, neighbours, len(lda_R))
        settled, forbidden = last_words(cosine_E, neighbours)
        allowed_R = active_R.copy()
        allowed_R[forbidden] = False
        if not allowed_R.any():
            return Answer(None, (), abstained=True)
        settled = [reply for reply in settled if allowed_R[reply]]
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
        return Answer(candidates[0].id, candidates, candidates[0].score)

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
            self._served = weights, described_RD, Neighbours.of(list(self.exemplars.parts().values()))
        return self._served

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        self._check_all(examples)
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

    def _check_all(self, examples: Sequence[Example]) -> None:
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
            LinearWeights(solved["matrix"], solved["bias"], solved["active"]),
            described_RD,
            Neighbours.of(chunks),
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


def exemplar_of(example: Example, reply: int) -> Exemplar:
    reward = round((2 * example.reward - 1) * 127) if example.kind == "reward" else 127
    return Exemplar(example.offset, reply, reward, example.kind == "correction", example.features)


def exemplars_of(part: Part) -> list[Exemplar]:
    columns = (part.tensors[name] for name in ("offset", "reply", "reward", "taught", "features"))
    return [Exemplar(int(o), int(r), int(w), bool(t), f.tobytes()) for o, r, w, t, f in zip(*columns, strict=True)]


def chunk_number(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


def features_of(inputs: Sequence[bytes]) -> NDArray[np.int8]:
    return np.frombuffer(b"".join(inputs), np.int8).reshape(-1, TEXT_WIDTH)


def evidence(cosine_E: NDArray[np.float32], neighbours: Neighbours, replies: int) -> NDArray[np.float64]:
    """Averaged signed evidence per reply, in (-1/damping, 1/damping): what rated neighbours say."""
    kernel_E = np.clip((cosine_E - NEAR_QUESTION) / (1 - NEAR_QUESTION), 0, None) ** 2
    near = np.flatnonzero(kernel_E)
    reply, kernel, reward = neighbours.reply_E[near], kernel_E[near], neighbours.reward_E[near]
    signed_R = np.bincount(reply, weights=kernel * reward, minlength=replies)
    weight_R = np.bincount(reply, weights=kernel * np.abs(reward), minlength=replies)
    averaged: NDArray[np.float64] = signed_R / (1 + EVIDENCE_DAMPING * weight_R)
    return averaged


def last_words(cosine_E: NDArray[np.float32], neighbours: Neighbours) -> tuple[list[int], list[int]]:
    """What was last said about this very question: (replies it settled on, best first; replies it forbids)."""
    same = np.flatnonzero(cosine_E >= SAME_QUESTION)
    last: dict[int, int] = {}
    for at in sorted(same, key=lambda at: int(neighbours.offset_E[at])):
        last[int(neighbours.reply_E[at])] = int(at)
    forbidden = [reply for reply, at in last.items() if neighbours.reward_E[at] < 0]
    agreed = [
        (neighbours.taught_E[at], neighbours.offset_E[at], reply)
        for reply, at in last.items()
        if neighbours.reward_E[at] > 0
    ]
    return [reply for _, _, reply in sorted(agreed, reverse=True)], forbidden


def lead(scores: NDArray[Any]) -> float:
    """How far the best is ahead of the next one."""
    if len(scores) < 2:
        return float("inf")
    next_best, best = np.partition(scores, -2)[-2:]
    return float(best - next_best)


def softmax(scores: NDArray[Any]) -> NDArray[np.float64]:
    odds: NDArray[np.float64] = np.exp(scores - scores.max())
    odds /= odds.sum()
    return odds
