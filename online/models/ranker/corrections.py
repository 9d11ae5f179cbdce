"""The reach of corrections with a scope. All of it follows from the exemplars and the replies' texts.

    scope question   the reply is given to near-duplicates of the question (exemplars.find_verdicts) and to no other:
                     neither the sums nor the evidence around the question have it, and a reply that was taught in this
                     way only is no candidate elsewhere
    scope reply      the new reply takes the place of the old one near the question:

        q --the old reply?--> nearest of {corrected question, what it took over} or of {what the old reply keeps}?
                                   | nearer                                        | nearer
                                   v                                               v
                              the replies swap their scores                   nothing changes

A correction to a reply that is known for other questions takes nothing over: the question was only answered wrongly.
Otherwise it rewords the old reply, if the question is at home there: the nearest of all questions and texts known
until then is the old reply's, by `HOME_LEAD`. Then it takes over what the old reply was known for until then, as far
as that is at all like the question. What the old reply is praised for later, it keeps.

Shapes: R replies, D features, E exemplars, K corrections of scope reply, M, S members and keepers of all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from online.models.encoders.text import TEXT_WIDTH
from online.models.ranker.exemplars import (
    NEAR_DUPLICATE,
    NEAR_QUESTION,
    QUESTION_SCOPE,
    REPLY_SCOPE,
    ExemplarIndex,
    normalise_rows,
)
from online.models.ranker.replies import Reply

HOME_LEAD = 0.1  # cosine; chosen on CLINC150's validation questions, as RELATED
RELATED = 0.3  # cosine from which a reworded reply hands its questions over
AT_ONCE = 64  # corrections that are compared with all exemplars together
NOTHING = -1.0  # cosine to an empty set

Floats = NDArray[np.float32]
Places = NDArray[np.intp]


class Redirection(NamedTuple):
    """The new reply is given where the old one would be. likeness: cosine to the nearest question taken over."""

    old: int
    new: int
    likeness: float


@dataclass(frozen=True, slots=True)
class Supersessions:
    """The questions that corrections of scope reply took over and left, in the order of their offsets.

    members, keepers: places of exemplars; each correction's are behind one another, and begin at starts_K. A keeper may
    be the place behind the last exemplar, which means none. text_KD: the old reply's text where the reply keeps it.
    """

    old_K: NDArray[np.int32]
    new_K: NDArray[np.int32]
    members_M: Places
    member_starts_K: Places
    keepers_S: Places
    keeper_starts_K: Places
    text_KD: Floats

    @classmethod
    def of(cls, neighbours: ExemplarIndex, replies: Sequence[Reply], described_RD: NDArray[np.int8]) -> "Supersessions":
        """described_RD: the features of the replies' texts."""
        corrections_K = find_supersessions(neighbours)
        if not len(corrections_K):
            none, nowhere = np.zeros(0, np.int32), np.zeros(0, np.intp)
            return cls(none, none, nowhere, nowhere, nowhere, nowhere, np.zeros((0, TEXT_WIDTH), np.float32))
        text_RD = normalise_rows(described_RD)
        known_E = (neighbours.reward_E > 0) & (neighbours.scope_E != QUESTION_SCOPE)
        found = [
            take_over(int(at), cosine_E, known_E, neighbours, replies, text_RD)
            for places in np.array_split(corrections_K, -(-len(corrections_K) // AT_ONCE))
            for at, cosine_E in zip(places, neighbours.cosines(neighbours.select_units(places)), strict=True)
        ]
        members, keepers = [each[0] for each in found], [each[1] for each in found]
        texts = [text_RD[neighbours.superseded_E[at]] for at in corrections_K]
        kept = [text if keeps else np.zeros_like(text) for text, (*_, keeps) in zip(texts, found, strict=True)]
        return cls(
            neighbours.superseded_E[corrections_K],
            neighbours.reply_E[corrections_K],
            *join_places(members),
            *join_places(keepers),
            np.array(kept, np.float32),
        )

    def find(
        self, cosine_E: Floats, unit_D: Floats, active_R: NDArray[np.bool_], reachable_R: NDArray[np.bool_]
    ) -> list[Redirection]:
        """Return the corrections that this question is nearer to than to what the old reply keeps, the oldest first.

        The new reply must be active; the old one may be retired, as is usual once a better one has been given.
        """
        if not len(self.old_K):
            return []
        cosines = np.append(cosine_E, np.float32(NOTHING))
        taken_K = np.maximum.reduceat(cosines[self.members_M], self.member_starts_K)
        kept_K = np.maximum.reduceat(cosines[self.keepers_S], self.keeper_starts_K)
        kept_K = np.maximum(kept_K, self.text_KD @ unit_D)
        may_be_given_K = reachable_R[self.old_K] & (active_R & reachable_R)[self.new_K]
        reached = np.flatnonzero((taken_K >= NEAR_QUESTION) & (taken_K > kept_K) & may_be_given_K)
        return [Redirection(int(self.old_K[k]), int(self.new_K[k]), float(taken_K[k])) for k in reached]


def find_supersessions(neighbours: ExemplarIndex) -> Places:
    """Return the places of the corrections that supersede a reply, by offset."""
    places = np.flatnonzero((neighbours.scope_E == REPLY_SCOPE) & (neighbours.superseded_E >= 0))
    return places[np.argsort(neighbours.offset_E[places], kind="stable")]


def take_over(
    at: int,
    cosine_E: Floats,
    known_E: NDArray[np.bool_],
    neighbours: ExemplarIndex,
    replies: Sequence[Reply],
    text_RD: Floats,
) -> tuple[Places, Places, bool]:
    """Return what one correction takes over (its own question first), what the old reply keeps, and whether it keeps its text.

    at: the place of the correction. cosine_E: to its question. known_E: questions that are known to belong to a reply.
    """
    old, new, offset = (int(each[at]) for each in (neighbours.superseded_E, neighbours.reply_E, neighbours.offset_E))
    earlier_E = known_E & (neighbours.offset_E < offset)
    of_old_E = known_E & (neighbours.reply_E == old)
    own = np.array([at], np.intp)
    is_same_E = (neighbours.superseded_E == old) & (neighbours.scope_E == REPLY_SCOPE)
    if (earlier_E & (neighbours.reply_E == new) & ~is_same_E).any():
        return own, np.flatnonzero(of_old_E), True
    texts_R = text_RD @ neighbours.select_units(own)[0]
    if not is_at_home(old, new, offset, cosine_E, earlier_E, neighbours, replies, texts_R):
        return own, np.flatnonzero(of_old_E), True
    taken_E = of_old_E & earlier_E & (cosine_E >= RELATED)
    return np.append(own, np.flatnonzero(taken_E)), np.flatnonzero(of_old_E & ~taken_E), bool(texts_R[old] < RELATED)


def is_at_home(
    old: int,
    new: int,
    offset: int,
    cosine_E: Floats,
    earlier_E: NDArray[np.bool_],
    neighbours: ExemplarIndex,
    replies: Sequence[Reply],
    texts_R: Floats,
) -> bool:
    """Return whether the nearest question or text known before the correction is the old reply's, by `HOME_LEAD`."""
    is_earlier_R = np.array([0 < reply.first_offset < offset for reply in replies], np.bool_)
    nearest_R = np.where(is_earlier_R, texts_R, NOTHING).astype(np.float32)
    np.maximum.at(nearest_R, neighbours.reply_E[earlier_E], cosine_E[earlier_E])
    others_R = np.delete(nearest_R, [old, new])
    return bool(nearest_R[old] >= others_R.max(initial=NOTHING) + HOME_LEAD)


def join_places(groups: Sequence[Places]) -> tuple[Places, Places]:
    """Return groups behind one another, and where each begins. An empty group becomes the place behind the last exemplar (-1)."""
    filled = [group if len(group) else np.array([-1], np.intp) for group in groups]
    starts = np.cumsum([0, *map(len, filled)])[:-1].astype(np.intp)
    return np.concatenate([np.zeros(0, np.intp), *filled]).astype(np.intp), starts


def redirect(scores_R: NDArray[np.float64], redirections: Sequence[Redirection]) -> None:
    """Give each new reply the score of the old one where that is better, and the old reply the new one's."""
    for old, new, _ in redirections:
        if scores_R[old] > scores_R[new]:
            scores_R[old], scores_R[new] = scores_R[new], scores_R[old]


def limit_reach(cosine_QE: Floats, neighbours: ExemplarIndex) -> Floats:
    """Return the cosines, as far as corrections of scope question reach: those to other questions are 0."""
    local = np.flatnonzero(neighbours.scope_E == QUESTION_SCOPE)
    if len(local):
        near_QL = cosine_QE[:, local]
        cosine_QE[:, local] = np.where(near_QL >= NEAR_DUPLICATE, near_QL, np.float32(0))
    return cosine_QE


def find_local_replies(neighbours: ExemplarIndex, replies: Sequence[Reply]) -> NDArray[np.bool_]:
    """bool [R]: the replies that only corrections of scope question gave. Thumbs do not change that."""
    local_R = np.array([reply.is_local for reply in replies], np.bool_)
    if local_R.any():
        spreads_E = (neighbours.reward_E > 0) & ~neighbours.thumb_E & (neighbours.scope_E != QUESTION_SCOPE)
        local_R[neighbours.reply_E[spreads_E]] = False
    return local_R


def find_reachable(local_R: NDArray[np.bool_], cosine_E: Floats, neighbours: ExemplarIndex) -> NDArray[np.bool_]:
    """bool [R]: the replies that may be given to a question: not the local ones, unless it is a near-duplicate."""
    reachable_R = ~local_R
    if local_R.any():
        same_E = (neighbours.reward_E > 0) & (cosine_E >= NEAR_DUPLICATE)
        reachable_R[neighbours.reply_E[same_E]] = True
    return reachable_R
