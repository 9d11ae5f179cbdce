"""Measures how far statements of callers agree with those of others about the same questions.

    statement --the nearest questions about which others spoke--> one vote each --> agrees, disagrees, or nobody knows

Others are other holders at other addresses. A holder that nobody has agreed with yet has a smaller vote. Nobody's own
statements count, nor what is held, so that no caller, however busy, vouches for itself.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import exp, fsum, lgamma, log, log1p
from statistics import median

import numpy as np
from numpy.typing import NDArray

from online.plugins.moderation.callers.standing import StandingRow
from online.plugins.moderation.callers.statements import Statement

SAME_QUESTION = 0.6  # the smallest cosine of two texts that count as the same question
NEIGHBORS, MAX_VOTES = 24, 7  # statements that are looked at, and holders among them that vote
NEW_VOTE, LEAST_VOTES = 0.25, 0.5  # of a holder that nobody agrees with yet; what is needed to judge at all
BLOCK = 512  # rows of one matrix product
# a holder is compared with this share of the agreement of the median one: people differ, and some only speak up when
# an answer is wrong
TOLERANCE = 2 / 3
LEVEL = 0.001  # probability of setting apart one holder that agrees exactly that often
LEAST_JUDGED = 6
LEAST_HOLDERS, LEAST_MEDIAN = 5, 0.6  # of others; where they do not agree among themselves, nobody is judged by them
ESTABLISHED_AFTER = 3  # statements with which others agree
BURST = timedelta(hours=1)
LEAST_BURST = 10  # new holders that push one answer
BURST_TOLERANCE = 1 / 2  # in place of TOLERANCE: of some answers even honest people are rarely sure

Verdict = bool | None
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class AgreementTally:
    """The agreement of others with one holder: the number of its statements that they can judge, and of those that they agree with."""

    judged: int = 0
    agreed: int = 0

    @property
    def ratio(self) -> float:
        """The share of agreement; 0 without any."""
        return self.agreed / self.judged if self.judged else 0.0


class StatementIndex:
    """Statements grouped by holder. standings: untrusted holders' standing by name; a missing one counts as new."""

    def __init__(self, statements: Sequence[Statement], standings: Mapping[str, StandingRow]) -> None:
        self.statements, self.standings = statements, standings

    def identity(self, statement: Statement) -> str:
        """Return the identity behind a statement: its holder, or all visitors at one address."""
        standing = self.standings.get(statement.holder)
        return f"@{standing.address}" if standing is not None and standing.address else statement.holder

    def vote(self, statement: Statement) -> float:
        """Return the weight of a statement: 1 of a trusted or established holder, 0 of one that does not count."""
        if statement.hold is not None:
            return 0.0
        if statement.is_trusted:
            return 1.0
        standing = self.standings.get(statement.holder)
        if standing is None or standing.state == "new":
            return NEW_VOTE
        return 0.0 if standing.is_quarantined else 1.0

    def find_verdicts(self) -> list[Verdict]:
        """Return for each statement whether others agree with it; None where too few spoke about the question."""
        verdicts: list[Verdict] = [None] * len(self.statements)
        votes = np.array([self.vote(each) for each in self.statements])
        voices = [place for place, vote in enumerate(votes) if vote]
        asked = [place for place, each in enumerate(self.statements) if not each.is_trusted]
        if not voices or not asked:
            return verdicts
        unit_ND = unit_rows([each.features for each in self.statements])
        identities = [self.identity(each) for each in self.statements]
        for start in range(0, len(asked), BLOCK):
            rows = asked[start : start + BLOCK]
            cosines_RV = unit_ND[rows] @ unit_ND[voices].T
            for row, cosines_V in zip(rows, cosines_RV, strict=True):
                near = self._nearest(row, cosines_V, voices, identities)
                verdicts[row] = judge(self.statements[row], [(self.statements[place], votes[place]) for place in near])
        return verdicts

    def _nearest(self, row: int, cosines_V: Floats, voices: Sequence[int], identities: Sequence[str]) -> list[int]:
        """Return the nearest statements of others about the same question, one of each voice."""
        others_V = np.where(cosines_V >= SAME_QUESTION, cosines_V, -1.0)
        count = min(NEIGHBORS, len(voices))
        best = np.argpartition(-others_V, count - 1)[:count]
        found: dict[str, int] = {}
        for place in best[np.argsort(-others_V[best], kind="stable")]:
            identity = identities[voices[place]]
            if others_V[place] < 0 or len(found) == MAX_VOTES:
                break
            if identity != identities[row]:
                found.setdefault(identity, voices[place])
        return list(found.values())

    def tally(self, verdicts: Sequence[Verdict]) -> dict[str, AgreementTally]:
        """Return the agreement with each holder that is not trusted."""
        judged, agreed = defaultdict[str, int](int), defaultdict[str, int](int)
        for statement, verdict in zip(self.statements, verdicts, strict=True):
            if verdict is not None and not statement.is_trusted:
                judged[statement.holder] += 1
                agreed[statement.holder] += verdict
        return {holder: AgreementTally(judged[holder], agreed[holder]) for holder in judged}

    def find_campaigns(
        self, verdicts: Sequence[Verdict], tallies: Mapping[str, AgreementTally], expected: float
    ) -> dict[str, set[str]]:
        """Answer -> the new holders that push it against others within an hour, where they are too many for chance.

        Others agree with nothing that these holders said. Each holder counts once for an answer. expected: how often
        others agree with a holder.
        """
        pushed: dict[str, list[tuple[datetime, str, bool]]] = defaultdict(list)
        for statement, verdict in zip(self.statements, verdicts, strict=True):
            standing = self.standings.get(statement.holder)
            is_new = standing is not None and standing.state == "new" and not statement.is_trusted
            if verdict is not None and is_new and statement.is_for:
                at = datetime.fromisoformat(statement.created_at)
                pushed[statement.label].append((at, statement.holder, tallies[statement.holder].agreed > 0))
        found = {label: find_burst(each, expected) for label, each in pushed.items()}
        return {label: holders for label, holders in found.items() if holders}


def find_burst(pushed: Sequence[tuple[datetime, str, bool]], expected: float) -> set[str]:
    """Return the holders that others contradict, of the hour that ends with the newest statement.

    pushed: when, by whom, and whether others agree with anything that it said.
    """
    newest = max(at for at, _, _ in pushed)
    agreed: dict[str, bool] = {}
    for at, holder, verdict in pushed:
        if newest - at <= BURST:
            agreed[holder] = agreed.get(holder, False) or verdict
    against = {holder for holder, agrees in agreed.items() if not agrees}
    is_rare = probability_of_at_most(len(agreed) - len(against), len(agreed), BURST_TOLERANCE * expected) < LEVEL
    return against if len(against) >= LEAST_BURST and is_rare else set()


def unit_rows(features: Sequence[bytes]) -> Floats:
    """[N, D] rows of length one, from texts encoded in int8."""
    rows_ND: Floats = np.frombuffer(b"".join(features), np.int8).reshape(len(features), -1).astype(np.float32)
    unit_ND: Floats = rows_ND / np.maximum(np.linalg.norm(rows_ND, axis=1, keepdims=True), 1.0)
    return unit_ND


def judge(statement: Statement, others: Sequence[tuple[Statement, float]]) -> Verdict:
    """others: what others said about the same question, with the weight of each."""
    if sum(weight for _, weight in others) < LEAST_VOTES or (len(others) < 2 and others[0][1] < 1):
        return None
    votes = defaultdict[str, float](float)
    for other, weight in others:
        votes[other.label] += weight if other.is_for else -weight
    own, best = votes.get(statement.label, 0.0), max(votes.values())
    if own == 0.0 >= best:
        return None  # nobody named an answer, nor spoke about this one
    return (own == best and own > 0) == statement.is_for


def expected_agreement(tallies: Mapping[str, AgreementTally], except_holder: str = "") -> float | None:
    """Return how often others agree with the median holder; None where too few are known, or they hardly agree."""
    ratios = [
        tally.ratio
        for holder, tally in tallies.items()
        if tally.judged >= ESTABLISHED_AFTER and holder != except_holder
    ]
    if len(ratios) < LEAST_HOLDERS or median(ratios) < LEAST_MEDIAN:
        return None
    return median(ratios)


def is_at_odds(tally: AgreementTally, expected: float) -> bool:
    """Return whether others agree with a holder so rarely that chance does not explain it: an exact, one-sided test."""
    return (
        tally.judged >= LEAST_JUDGED
        and probability_of_at_most(tally.agreed, tally.judged, TOLERANCE * expected) < LEVEL
    )


def is_agreed_with(tally: AgreementTally, expected: float | None) -> bool:
    """Return whether others agree with a holder often enough for it to count as much as they do."""
    return tally.agreed >= ESTABLISHED_AFTER and tally.ratio >= TOLERANCE * (expected or LEAST_MEDIAN)


def probability_of_at_most(successes: int, trials: int, probability: float) -> float:
    """Return the cumulative probability of a binomial distribution."""
    if not 0 < probability < 1:
        return float(probability <= 0 or successes >= trials)
    odds = log(probability), log1p(-probability)
    return fsum(
        exp(lgamma(trials + 1) - lgamma(n + 1) - lgamma(trials - n + 1) + n * odds[0] + (trials - n) * odds[1])
        for n in range(successes + 1)
    )
