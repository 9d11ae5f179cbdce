"""Rated questions, stored one by one: what a ranker remembers in addition to its sums.

    learner:  Exemplars       chunks by offset; the file of an old chunk never changes again
    serving:  ExemplarIndex   the same as arrays, and the evidence they give for a question

Evidence is averaged, never summed, so that a few wrong thumbs among many cannot carry a reply. In
addition to the evidence near a question, a reply has a score of its thumbs anywhere.

Shapes: Q questions, R replies, D features, E exemplars.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from online.models.contract import AnyArray, Example, Scope, StatePart, Tensors, new_revision
from online.models.encoders.text import TEXT_WIDTH

SAME_QUESTION = 0.999  # cosine from which two questions count as the same
NEAR_DUPLICATE = 0.95  # cosine up to which a correction of scope question reaches
ALIKE = 0.9  # cosine from which a reply rejected for one question is withheld from the other
BACKED = 0.75  # averaged evidence from which a reply is not withheld: one or two wrong thumbs do not suffice
NEAR_QUESTION = 0.5  # cosine from which a rated question is evidence for another
EVIDENCE_DAMPING = 0.3
STANDING_DAMPING = 1.0  # thumbs
CHUNK = 256  # exemplars in one file: full ones are hard-linked from version to version
NO_SCOPE, REPLY_SCOPE, QUESTION_SCOPE = range(3)  # how far a correction reaches (corrections.py); their names:
SCOPE_NAMES: tuple[Scope, ...] = ("", "reply", "question")


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A rated question: a reward in [-127, 127] for one reply.

    taught: the answer was corrected. thumb: the answer was rated. Neither: an example question.
    scope: of a correction, an index of `SCOPE_NAMES`. superseded: the reply that it supersedes; -1 for none.
    """

    offset: int
    reply: int
    reward: int
    taught: bool
    thumb: bool
    features: bytes
    scope: int = NO_SCOPE
    superseded: int = -1

    @property
    def is_summed(self) -> bool:
        """Whether the sums have it. They spread what they have, so a correction of one question is left out."""
        return self.reward > 0 and self.scope != QUESTION_SCOPE

    def digest(self, reply_id: str, superseded_id: str = "") -> int:
        """Return a hash of the exemplar, whose sum over all of them identifies the memory."""
        scope = f"{SCOPE_NAMES[self.scope]} {superseded_id} " if self.scope else ""
        data = f"{self.offset} {reply_id} {self.reward} {self.taught} {self.thumb} {scope}".encode() + self.features
        return int.from_bytes(hashlib.sha256(data).digest(), "little")


class Exemplars:
    """The learner's side: rated questions in chunks by offset, so that old files never change."""

    def __init__(self) -> None:
        self.chunks: dict[int, dict[int, Exemplar]] = {}
        self.taught: dict[int, Exemplar] = {}  # by offset; with `rated`, all exemplars
        self.rated: dict[int, Exemplar] = {}
        self._parts: dict[int, StatePart] = {}  # parts of chunks that have not changed since

    @property
    def count(self) -> int:
        """The number of exemplars."""
        return len(self.taught) + len(self.rated)

    def add(self, exemplar: Exemplar) -> None:
        """Store an exemplar in the chunk of its offset."""
        self.chunks.setdefault(exemplar.offset // CHUNK, {})[exemplar.offset] = exemplar
        (self.taught if exemplar.taught else self.rated)[exemplar.offset] = exemplar
        self._parts.pop(exemplar.offset // CHUNK, None)

    def remove(self, offset: int) -> Exemplar | None:
        """Remove and return the exemplar; None if there is none at this offset."""
        number = offset // CHUNK
        gone = self.chunks.get(number, {}).pop(offset, None)
        if gone is not None:
            (self.taught if gone.taught else self.rated).pop(offset)
            self._parts.pop(number, None)
            if not self.chunks[number]:
                del self.chunks[number]
        return gone

    def all(self) -> list[Exemplar]:
        """Return the exemplars by offset."""
        return [self.chunks[chunk][offset] for chunk in sorted(self.chunks) for offset in sorted(self.chunks[chunk])]

    def oldest(self) -> Exemplar:
        """Return the exemplar to evict first: thumbs before corrections, then the oldest."""
        kind = self.rated or self.taught
        return kind[min(kind)]

    def parts(self) -> dict[str, StatePart]:
        """Return a part for each chunk, so that only changed chunks are written."""
        return {f"exemplars-{chunk}": self._part(chunk) for chunk in sorted(self.chunks)}

    def _part(self, chunk: int) -> StatePart:
        if chunk not in self._parts:
            rows = [self.chunks[chunk][offset] for offset in sorted(self.chunks[chunk])]
            tensors: Tensors = {
                "features": np.frombuffer(b"".join(row.features for row in rows), np.int8).reshape(len(rows), -1),
                "offset": np.array([row.offset for row in rows], np.int64),
                "reply": np.array([row.reply for row in rows], np.int32),
                "reward": np.array([row.reward for row in rows], np.int8),
                "taught": np.array([row.taught for row in rows], np.bool_),
                "thumb": np.array([row.thumb for row in rows], np.bool_),
                **build_scope_columns(rows),
            }
            self._parts[chunk] = StatePart(tensors, serving=True, revision=new_revision())
        return self._parts[chunk]


@dataclass(frozen=True, slots=True)
class ExemplarIndex:
    """The serving side: the same exemplars as arrays over E, to compare questions with.

    units: float32 [.., D], their features as rows of length 1, in consecutive blocks.
    """

    units: Sequence[NDArray[np.float32]]
    offset_E: NDArray[np.int64]
    reply_E: NDArray[np.int32]
    reward_E: NDArray[np.float32]  # [-1, 1]
    taught_E: NDArray[np.bool_]
    thumb_E: NDArray[np.bool_]
    scope_E: NDArray[np.int8]
    superseded_E: NDArray[np.int32]
    thumbs_R: NDArray[np.float64]

    @classmethod
    def of(cls, parts: Sequence[StatePart], replies: int) -> "ExemplarIndex":
        """Read the index from the parts of a state."""

        def joined(name: str, kind: DTypeLike) -> AnyArray:
            columns = (part.tensors[name] if name in part.tensors else default_column(part, name) for part in parts)
            return np.concatenate([np.zeros(0, kind), *columns]).astype(kind)

        reply_E, thumb_E = joined("reply", np.int32), joined("thumb", np.bool_)
        reward_E = (joined("reward", np.float32) / 127).astype(np.float32)
        thumbs_R = compute_thumbs(reply_E[thumb_E], reward_E[thumb_E], replies)
        units = [cls._unit(part) for part in parts]
        scope_E, superseded_E = joined("scope", np.int8), joined("superseded", np.int32)
        offset_E, taught_E = joined("offset", np.int64), joined("taught", np.bool_)
        return cls(units, offset_E, reply_E, reward_E, taught_E, thumb_E, scope_E, superseded_E, thumbs_R)

    def cosines(self, unit_QD: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosines [Q, E] of questions with all exemplars."""
        columns = [unit_QD @ unit.T for unit in self.units]
        return (
            columns[0] if len(columns) == 1 else np.concatenate([np.zeros((len(unit_QD), 0), np.float32), *columns], 1)
        )

    def select_units(self, places: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return rows of length 1 of the exemplars at these places."""
        starts = np.cumsum([0, *map(len, self.units)])
        blocks = np.searchsorted(starts, places, side="right") - 1
        rows = [self.units[block][at - starts[block]] for block, at in zip(blocks, places, strict=True)]
        return np.array(rows, np.float32).reshape(len(rows), TEXT_WIDTH)

    @staticmethod
    def _unit(part: StatePart) -> NDArray[np.float32]:
        if "unit" not in part.derived:
            part.derived["unit"] = normalise_rows(part.tensors["features"])
        unit: NDArray[np.float32] = part.derived["unit"]
        return unit


class GrowingIndex:
    """The learner's `ExemplarIndex`: one more exemplar does not read the others again.

    Exemplars are appended by offset, and a removed one stays as a row of zeros that is near to no question.
    """

    def __init__(self, exemplars: Sequence[Exemplar] = ()) -> None:
        self.count, room = len(exemplars), max(CHUNK, 2 * len(exemplars))
        features = stack_features([exemplar.features for exemplar in exemplars])
        self._unit_ED = np.zeros((room, TEXT_WIDTH), np.float32)
        self._unit_ED[: self.count] = normalise_rows(features)
        self._offset_E = grow([exemplar.offset for exemplar in exemplars], np.int64, room)
        self._reply_E = grow([exemplar.reply for exemplar in exemplars], np.int32, room)
        self._reward_E: NDArray[np.float32] = grow([each.reward for each in exemplars], np.float32, room)
        self._reward_E /= np.float32(127)
        self._taught_E = grow([exemplar.taught for exemplar in exemplars], np.bool_, room)
        self._thumb_E = grow([exemplar.thumb for exemplar in exemplars], np.bool_, room)
        self._scope_E = grow([exemplar.scope for exemplar in exemplars], np.int8, room)
        self._superseded_E = grow([exemplar.superseded for exemplar in exemplars], np.int32, room)
        self._thumbs_R: NDArray[np.float64] | None = None

    def append(self, exemplar: Exemplar) -> bool:
        """Append an exemplar. False if the index must be built again."""
        at = self.count
        if at == len(self._offset_E) or (at and exemplar.offset <= self._offset_E[at - 1]):
            return False
        self._unit_ED[at] = normalise_rows(stack_features([exemplar.features]))[0]
        self._offset_E[at], self._reply_E[at] = exemplar.offset, exemplar.reply
        self._reward_E[at] = np.float32(exemplar.reward) / np.float32(127)
        self._taught_E[at], self._thumb_E[at] = exemplar.taught, exemplar.thumb
        self._scope_E[at], self._superseded_E[at] = exemplar.scope, exemplar.superseded
        self.count += 1
        self._thumbs_R = None if exemplar.thumb else self._thumbs_R
        return True

    def remove(self, offset: int) -> None:
        """Remove the exemplar at this offset."""
        at = int(np.searchsorted(self._offset_E[: self.count], offset))
        self._unit_ED[at], self._reward_E[at], self._thumb_E[at], self._scope_E[at] = 0.0, 0.0, False, NO_SCOPE
        self._thumbs_R = None

    def view(self, replies: int) -> ExemplarIndex:
        """Return the present exemplars. It is valid until the next change."""
        reply_E, reward_E = self._reply_E[: self.count], self._reward_E[: self.count]
        thumb_E = self._thumb_E[: self.count]
        if self._thumbs_R is None or len(self._thumbs_R) != replies:
            self._thumbs_R = compute_thumbs(reply_E[thumb_E], reward_E[thumb_E], replies)
        offset_E, taught_E = self._offset_E[: self.count], self._taught_E[: self.count]
        scope_E, superseded_E = self._scope_E[: self.count], self._superseded_E[: self.count]
        units = [self._unit_ED[: self.count]]
        return ExemplarIndex(
            units, offset_E, reply_E, reward_E, taught_E, thumb_E, scope_E, superseded_E, self._thumbs_R
        )


def grow(values: Sequence[float], kind: DTypeLike, room: int) -> AnyArray:
    """Return the values, followed by zeros up to `room`."""
    grown = np.zeros(room, kind)
    grown[: len(values)] = values
    return grown


@dataclass(frozen=True, slots=True)
class ScoreBreakdown:
    """The terms of a reply's score for one question, in score units (choice.py).

    moved: what corrections of scope reply moved to it from the reply that they supersede, or away.
    """

    reply: str
    text: str
    sums: float
    evidence: float
    thumbs: float
    moved: float = 0.0


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A rated question near another one. likeness: cosine. reward: in [-1, 1], for this reply."""

    offset: int
    reply: str
    likeness: float
    reward: float


@dataclass(frozen=True, slots=True)
class ChoiceExplanation:
    """The explanation of a choice. settled: the reply that the latest verdict on this question asks for."""

    settled: str | None
    breakdowns: list[ScoreBreakdown]
    neighbors: list[Neighbor]


def find_nearest_rated(
    cosine_E: NDArray[np.float32], neighbours: ExemplarIndex, ids: Sequence[str], count: int
) -> list[Neighbor]:
    """Return the `count` nearest exemplars that are evidence for the question."""
    near = np.flatnonzero(cosine_E > NEAR_QUESTION)
    nearest = near[np.argsort(-cosine_E[near], kind="stable")][:count]
    return [
        Neighbor(int(offset), ids[reply], float(cosine), float(reward))
        for offset, reply, cosine, reward in zip(
            neighbours.offset_E[nearest],
            neighbours.reply_E[nearest],
            cosine_E[nearest],
            neighbours.reward_E[nearest],
            strict=True,
        )
    ]


def normalise_rows(features: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return int8 [N, D] -> float32 rows of length 1 (zero rows stay zero)."""
    rows = features.astype(np.float32)
    unit: NDArray[np.float32] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1).astype(np.float32)
    return unit


def make_exemplar(example: Example, reply: int, superseded: int = -1) -> Exemplar:
    """Return the exemplar of an example about the reply with this index. superseded: as in `Exemplar`."""
    reward = round((2 * example.reward - 1) * 127) if example.kind == "reward" else 127
    taught, thumb = example.kind == "correction", example.kind == "reward"
    scope = SCOPE_NAMES.index(example.scope) if taught else NO_SCOPE
    return Exemplar(example.offset, reply, reward, taught, thumb, example.features, scope, superseded)


def read_exemplars(part: StatePart) -> list[Exemplar]:
    """Return the exemplars of a chunk's part."""
    columns = [part.tensors[name] for name in ("offset", "reply", "reward", "taught", "thumb", "features")]
    scopes = [part.tensors.get(name, default_column(part, name)) for name in ("scope", "superseded")]
    rows = zip(*columns, *scopes, strict=True)
    return [
        Exemplar(int(o), int(r), int(w), bool(t), bool(u), f.tobytes(), int(s), int(p))
        for o, r, w, t, u, f, s, p in rows
    ]


def build_scope_columns(rows: Sequence[Exemplar]) -> Tensors:
    """Return the columns `scope` and `superseded`; none where no correction has a scope, as before there were any."""
    if not any(row.scope for row in rows):
        return {}
    scope, superseded = [row.scope for row in rows], [row.superseded for row in rows]
    return {"scope": np.array(scope, np.int8), "superseded": np.array(superseded, np.int32)}


def default_column(part: StatePart, name: str) -> AnyArray:
    """Return the column of a chunk in which no correction has a scope."""
    return np.full(len(part.tensors["offset"]), -1 if name == "superseded" else NO_SCOPE, np.int32)


def parse_chunk_number(name: str) -> int:
    """Return the number in the name of a chunk's part; -1 for another part."""
    number = name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


def stack_features(inputs: Sequence[bytes]) -> NDArray[np.int8]:
    """Return int8 [Q, D] of encoded texts."""
    return np.frombuffer(b"".join(inputs), np.int8).reshape(-1, TEXT_WIDTH)


def similarity_kernel(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the weight of rated questions as evidence, of any shape: 0 up to a cosine of NEAR_QUESTION, 1 for the same question."""
    kernel: NDArray[np.float32] = np.clip((cosines - NEAR_QUESTION) / (1 - NEAR_QUESTION), 0, None) ** 2
    return kernel


def compute_evidence(cosine_E: NDArray[np.float32], neighbours: ExemplarIndex, replies: int) -> NDArray[np.float64]:
    """Return averaged signed evidence [R] of rated neighbours, in (-1/damping, 1/damping)."""
    kernel_E = similarity_kernel(cosine_E)
    near = np.flatnonzero(kernel_E)
    reply, kernel, reward = neighbours.reply_E[near], kernel_E[near], neighbours.reward_E[near]
    signed_R = np.bincount(reply, weights=kernel * reward, minlength=replies)
    weight_R = np.bincount(reply, weights=kernel * np.abs(reward), minlength=replies)
    averaged: NDArray[np.float64] = signed_R / (1 + EVIDENCE_DAMPING * weight_R)
    return averaged


def compute_thumbs(reply: NDArray[np.int32], reward: NDArray[np.float32], replies: int) -> NDArray[np.float64]:
    """Standing [R] in (-1, 1): averaged thumbs of each reply, times how much thumbs differ between replies.

    It matters where thumbs rate the reply itself (for example its style). Where they rate how well
    a reply fits the question, replies hardly differ and the factor is close to 0.
    """
    signed_R = np.bincount(reply, weights=reward, minlength=replies).astype(np.float64)
    weight_R = np.bincount(reply, weights=np.abs(reward), minlength=replies).astype(np.float64)
    averaged: NDArray[np.float64] = signed_R / (STANDING_DAMPING + weight_R)
    return intraclass_correlation((weight_R + signed_R) / 2, weight_R) * averaged


def intraclass_correlation(ups_R: NDArray[np.float64], weight_R: NDArray[np.float64]) -> float:
    """Return the share of the variance of thumbs between replies, by one-way analysis of variance (Fisher 1925)."""
    rated = weight_R > 0
    ups, weight = ups_R[rated], weight_R[rated]
    groups, total = len(weight), weight.sum()
    if groups < 2 or total <= groups:
        return 0.0
    share = ups / weight
    between = (weight * (share - ups.sum() / total) ** 2).sum() / (groups - 1)
    within = (weight * share * (1 - share)).sum() / (total - groups)
    typical = (total - (weight**2).sum() / total) / (groups - 1)
    spread = between + (typical - 1) * within
    return float(np.clip((between - within) / spread, 0, 1)) if spread > 0 else 0.0


def find_verdicts(cosine_E: NDArray[np.float32], neighbours: ExemplarIndex) -> tuple[list[int], list[int]]:
    """Return the latest verdicts on this question: (replies they ask for, best first; replies they forbid).

    A correction of scope question decides about near-duplicates too, unless there is a verdict on the question itself.
    """
    same_E = cosine_E >= SAME_QUESTION
    decides_E = same_E | ((neighbours.scope_E == QUESTION_SCOPE) & (cosine_E >= NEAR_DUPLICATE))
    last: dict[int, int] = {}
    for at in sorted(np.flatnonzero(decides_E), key=lambda at: (bool(same_E[at]), int(neighbours.offset_E[at]))):
        last[int(neighbours.reply_E[at])] = int(at)
    forbidden = [reply for reply, at in last.items() if neighbours.reward_E[at] < 0]
    settled_on = [
        (same_E[at], neighbours.taught_E[at], neighbours.offset_E[at], reply)
        for reply, at in last.items()
        if neighbours.reward_E[at] > 0
    ]
    return [reply for *_, reply in sorted(settled_on, reverse=True)], forbidden


def find_outvoted(
    cosine_E: NDArray[np.float32], neighbours: ExemplarIndex, evidence_R: NDArray[np.float64]
) -> list[int]:
    """Return replies rejected more than liked for almost this question, without evidence for them around it."""
    similar = np.flatnonzero(cosine_E >= ALIKE)
    votes_R = np.bincount(neighbours.reply_E[similar], weights=neighbours.reward_E[similar], minlength=len(evidence_R))
    return [int(reply) for reply in np.flatnonzero((votes_R < 0) & (evidence_R < BACKED))]
