"""Reviews what callers say, beside the service: whom others agree with, and whom they contradict.

    newest feedback, and what is held --StatementIndex--> verdicts --> others agree           --> the holder is established,
                                                                                                 its held feedback is learned
                                                                   --> others disagree by far --> the holder is quarantined
                                                                   --> many new holders push one answer against all others
                                                                                              --> they are quarantined

Curators are never reviewed: where nobody else gives feedback, a review is one query that finds nothing.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from online.models import Model, input_options
from online.plugins.moderation.callers.agreement import (
    AgreementTally,
    StatementIndex,
    Verdict,
    expected_agreement,
    is_agreed_with,
    is_at_odds,
)
from online.plugins.moderation.callers.holders import Holders
from online.plugins.moderation.callers.influence import Influence
from online.plugins.moderation.callers.standing import (
    count_states,
    forget_new_holders,
    load_standings,
    set_judgement,
)
from online.plugins.moderation.callers.statements import (
    Statement,
    count_statements,
    load_held_statements,
    load_unretracted_statements,
)
from online.plugins.moderation.held.deciding import note_rejected
from online.plugins.moderation.held.queries import expire_undecided
from online.serving.live import LiveModel
from online.store.callers.held_feedback import HeldFeedbackRow
from online.telemetry import OutageLog

log = logging.getLogger("online.caller_review")

REVIEW_EVERY_S = 15.0
REST_RATIO = 20  # a review is followed by a pause of at least this many times its own duration
MAX_STATEMENTS, MAX_HELD_STATEMENTS = 3_000, 1_000
MAX_ANSWERED = 500  # questions that the model is asked
MAX_RELEASED = 500  # of one review
REVIEWED = ("established", "new")  # states that a review may change; an operator's decision stands


@dataclass(frozen=True, slots=True)
class ReviewFindings:
    """The findings of a review.

    quarantined: holders, with the reasons. unfinished: quarantined holders before, and of whom something stands that
    they said until then. released: ids of held feedback.
    """

    tallies: Mapping[str, AgreementTally]
    established: Sequence[str] = ()
    quarantined: Mapping[str, str] | None = None
    released: Sequence[str] = ()
    unfinished: Sequence[str] = ()


class CallerReview:
    """Reviews the callers of one model."""

    def __init__(
        self,
        holders: Holders,
        live: LiveModel,
        influence: Influence,
        show_states: Callable[[Mapping[str, int]], None],
    ) -> None:
        """show_states: called with the number of holders in each state."""
        self.holders, self.live, self.influence, self.show_states = holders, live, influence, show_states
        self.feedback = holders.feedback
        self.name, self.transactions = self.feedback.name, self.feedback.transactions
        self.is_text = input_options(live.kind, self.feedback.spec.options)["input"] == "text"
        self.reviewed: tuple[int, ...] = ()
        self._outage = OutageLog(log, "review of callers failed", model=self.name)

    async def run(self) -> None:
        """Review until cancelled."""
        while True:
            began = time.monotonic()
            try:
                await self.review()
                self._outage.record_success()
            except Exception as error:  # any error: serving continues, and the next review tries again
                self.reviewed = ()
                self._outage.record_failure(f"{type(error).__name__}: {error}")
            await asyncio.sleep(max(REVIEW_EVERY_S, REST_RATIO * (time.monotonic() - began)))

    async def review(self) -> ReviewFindings | None:
        """Return one review; None if there is nothing new."""
        crowd = await self.transactions.read(self._load)
        if crowd is None or self.live.current.encoder is not self.live.encoder_config.encoder:
            return None  # the version that answers cannot judge features of another encoder
        findings = await asyncio.to_thread(self._judge, crowd, self.live.current.model)
        await self._act(findings)
        return findings

    def _load(self, connection: Connection) -> StatementIndex | None:
        """Return None where every caller is trusted, or nothing has changed since the last review."""
        if not count_states(connection, self.name):
            return None
        seen = (*count_statements(connection, self.name), self.live.current.version)
        if seen == self.reviewed:
            return None
        self.reviewed = seen
        said = load_unretracted_statements(connection, self.name, MAX_STATEMENTS)
        held = load_held_statements(connection, self.name, ("influence", "quarantine"), MAX_HELD_STATEMENTS)
        width = len(said[-1].features) if said else 0
        same = [each for each in (*said, *held) if len(each.features) == width]
        return StatementIndex(same, load_standings(connection, self.name, sorted({each.holder for each in same})))

    # what it finds, in a thread

    def _judge(self, crowd: StatementIndex, model: Model) -> ReviewFindings:
        verdicts = crowd.find_verdicts() if self.is_text else judge_by_model(crowd, model)
        tallies = crowd.tally(verdicts)
        expected = expected_agreement(tallies)
        quarantined = self._find_opponents(crowd, verdicts, tallies) if expected is not None else {}
        established = [
            holder
            for holder, tally in tallies.items()
            if holder not in quarantined and is_new(crowd, holder) and is_agreed_with(tally, expected)
        ]
        if self.is_text:
            verdicts = add_model_opinions(crowd.statements, verdicts, model)
        released = self._find_released(crowd, verdicts, set(established), quarantined)
        return ReviewFindings(tallies, established, quarantined, released, find_unfinished(crowd))

    def _find_opponents(
        self, crowd: StatementIndex, verdicts: Sequence[Verdict], tallies: Mapping[str, AgreementTally]
    ) -> dict[str, str]:
        """Return the holders to quarantine, with the reasons."""
        found: dict[str, str] = {}
        overall = expected_agreement(tallies)
        for holder, tally in tallies.items():
            expected = expected_agreement(tallies, except_holder=holder)
            if expected is not None and is_at_odds(tally, expected):
                found[holder] = (
                    f"others agree with {tally.agreed} of {tally.judged} of its feedbacks; with the median caller's, "
                    f"{100 * expected:.0f} %"
                )
        for label, holders in crowd.find_campaigns(verdicts, tallies, overall or 1.0).items():
            reason = f"it is one of {len(holders)} new callers that push {label!r} within an hour, against all others"
            found = {**dict.fromkeys(sorted(holders), reason), **found}
        states = {holder: standing.state for holder, standing in crowd.standings.items()}
        return {holder: reason for holder, reason in found.items() if states.get(holder, "new") in REVIEWED}

    def _find_released(
        self, crowd: StatementIndex, verdicts: Sequence[Verdict], established: set[str], quarantined: Mapping[str, str]
    ) -> list[str]:
        """Return what was held for its holder's influence, and others agree with; of a holder that others trust, all else too."""
        ids = []
        for statement, verdict in zip(crowd.statements, verdicts, strict=True):
            standing = crowd.standings.get(statement.holder)
            is_quarantined = statement.holder in quarantined or (standing is not None and standing.is_quarantined)
            if statement.hold != "influence" or is_quarantined:
                continue
            is_vouched_for = standing is not None and standing.state == "released"
            if verdict or is_vouched_for or (verdict is None and statement.holder in established):
                ids.append(statement.id)
        return ids[:MAX_RELEASED]

    # what it does about it

    async def _act(self, findings: ReviewFindings) -> None:
        for holder, reason in sorted((findings.quarantined or {}).items()):
            await self.holders.quarantine(holder, reason)
        for holder in findings.unfinished:
            await self.holders.retract_feedback(holder, is_kept=True)
        for holder in findings.established:
            await self.holders.establish(holder)
        for id in findings.released:
            await self.holders.accept(id, "agreement")
        since = self.influence.since(datetime.now(UTC))

        def record(connection: Connection) -> tuple[list[HeldFeedbackRow], dict[str, int]]:
            for holder, tally in findings.tallies.items():
                set_judgement(connection, self.name, holder, tally.judged, tally.agreed)
            expired = expire_undecided(connection, self.name, "influence", since.isoformat())
            forget_new_holders(connection, self.name, (since - timedelta(days=1)).isoformat())
            return expired, count_states(connection, self.name)

        expired, states = await self.transactions.write(record)
        note_rejected(self.feedback, expired)
        self.show_states(states)


def is_new(crowd: StatementIndex, holder: str) -> bool:
    """Return whether a holder has not been established."""
    standing = crowd.standings.get(holder)
    return standing is None or standing.state == "new"


def find_unfinished(crowd: StatementIndex) -> list[str]:
    """Return quarantined holders, with feedback from before that stands: a process was killed, or it came at that moment.

    What a curator has accepted since then stays.
    """
    found = set()
    for each in crowd.statements:
        standing = crowd.standings.get(each.holder)
        if each.hold is not None or standing is None or not standing.is_quarantined:
            continue
        if each.created_at <= (standing.decided_at or ""):
            found.add(each.holder)
    return sorted(found)


def judge_by_model(crowd: StatementIndex, model: Model) -> list[Verdict]:
    """Return where questions have no measure of being the same: whether the model, which learned from all, agrees."""
    answers = answer([each for each in crowd.statements if not each.is_trusted][-MAX_ANSWERED:], model)
    return [
        (answers[each.id] == each.label) == each.is_for if each.id in answers else None for each in crowd.statements
    ]


def add_model_opinions(statements: Sequence[Statement], verdicts: Sequence[Verdict], model: Model) -> list[Verdict]:
    """Let the model agree with held statements about which others said nothing, where it has come round to them.

    It has no say where the same holder's feedback about the same answer stands: it may have learned it from there. Nor can
    it disagree: who corrects an answer disagrees with the model that gave it.
    """
    stand = {(each.holder, each.label) for each in statements if each.hold is None}
    corrections = [
        each
        for each, verdict in zip(statements, verdicts, strict=True)
        if verdict is None and each.hold is not None and each.is_for and each.choice != each.label
        if (each.holder, each.label) not in stand
    ]
    answers = answer(corrections[:MAX_ANSWERED], model)
    return [
        True if answers.get(each.id) == each.label else verdict
        for each, verdict in zip(statements, verdicts, strict=True)
    ]


def answer(statements: Sequence[Statement], model: Model) -> dict[str, str]:
    """Statement id -> what a model answers to its question, where it answers."""
    answers = model.predict([each.features for each in statements]) if statements else []
    return {
        each.id: answer.choice for each, answer in zip(statements, answers, strict=True) if answer.choice is not None
    }
