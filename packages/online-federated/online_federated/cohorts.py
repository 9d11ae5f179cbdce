"""Cohorts of one model: create one, join it, take the messages of its rounds, and add up what its members have sent.

    messages in the store --recover_sum--> the sum of the survivors --submit_sums--> one event of the log, or none

The service sees masked values and the sum. It never sees the values of one member, as long as it passes on the keys that the
members have sent: see `online_federated.secure_aggregation`.
"""

import asyncio
import hmac
import json
import logging
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar, cast

from sqlalchemy import Connection

from online.errors import BadInput, Conflict, NotFound, Overloaded, TooLarge
from online.schemas.access.callers import SERVICE, Caller
from online.serving.feedback.admission import holder_of
from online.serving.feedback.feedback import Feedback
from online.serving.feedback.sums.admission import check_may_send_sums
from online.serving.feedback.sums.submission import submit_sums
from online.serving.parts import ModelPart
from online.telemetry import log_event
from online_federated.bodies import (
    Message,
    choose_values_layout,
    describe_keys,
    encode,
    place_of_share,
    read_keys,
    write_body,
    write_keys,
)
from online_federated.membership import hash_holder, hash_token
from online_federated.new_cohort import count_least, prepare_cohort
from online_federated.rounds import advance, is_due
from online_federated.schemas import (
    CohortAnswer,
    CohortParameters,
    CohortStateName,
    JoinRequest,
    MemberAnswer,
    Membership,
    SharesMessage,
    UnmaskingMessage,
    ValuesMessage,
)
from online_federated.secure_aggregation.errors import AggregationFailed
from online_federated.secure_aggregation.messages import KEY_BYTES, choose_threshold
from online_federated.settings import CohortSettings
from online_federated.tables import (
    ENDED,
    CohortMessageRow,
    CohortRow,
    add_cohort,
    add_message,
    change_cohort,
    count_messages,
    count_open,
    finish_cohort,
    has_sent,
    is_member,
    list_numbers,
    list_open,
    load_bodies,
    load_body,
    load_cohort,
    load_token,
)
from online_federated.total import context_of, id_of_feedback, load_rounds, recover, write_total

log = logging.getLogger("online.cohorts")

MAX_OPEN = 16  # cohorts of one model that have not ended
MAX_WAIT_S = 5.0  # the longest that a request waits for the total
PAUSE = timedelta(seconds=10)  # until the total is tried again, after an error of the service
T = TypeVar("T")
ROUND_OF: Mapping[type[Message], str] = {
    SharesMessage: "sharing",
    ValuesMessage: "masking",
    UnmaskingMessage: "unmasking",
}


class Cohorts(ModelPart):
    """The cohorts of one model. clock: the present instant, in UTC. random: a cryptographic source of bytes."""

    def __init__(self, feedback: Feedback, clock: Callable[[], datetime], random: Callable[[int], bytes]) -> None:
        self.feedback, self.clock, self.random = feedback, clock, random
        self.name, self.transactions = feedback.name, feedback.transactions
        self.limits = feedback.settings.part(CohortSettings)
        self._adding: asyncio.Task[None] | None = None

    # what a curator does

    async def create(self, parameters: CohortParameters) -> CohortAnswer:
        """Begin a cohort. Raises BadInput, TooLarge, and Overloaded if too many have not ended."""
        row = prepare_cohort(self.feedback, parameters, self.random(16).hex(), self.clock())

        def record(connection: Connection) -> None:
            for id in list_open(connection, self.name):
                self._lock(connection, id)  # one whose time is up counts no longer
            if count_open(connection, self.name) >= MAX_OPEN:
                raise Overloaded(f"{self.name} has {MAX_OPEN} cohorts that have not ended; try again later")
            add_cohort(connection, row)

        await self.transactions.write(record)
        return await self.load(row.id)

    async def load(self, id: str) -> CohortAnswer:
        """Return how far a cohort is, after it was moved on. Raises NotFound."""

        def count_members(connection: Connection, row: CohortRow) -> int:
            return row.member_count or count_messages(connection, self.name, id, "joining")

        row, members = await self._look(id, count_members)
        parameters = CohortParameters.model_validate_json(row.parameters)
        layout = choose_values_layout(parameters, row.width)
        return CohortAnswer(
            id=row.id,
            state=cast(CohortStateName, row.state),
            parameters=parameters,
            width=row.width,
            features=json.loads(row.features),
            member_count=members,
            threshold=choose_threshold(row.member_count) if row.member_count else None,
            deadline=row.deadline,
            reason=row.reason,
            segments=[(segment.length, segment.bits) for segment in layout.segments],
        )

    async def _look(self, id: str, query: Callable[[Connection, CohortRow], T]) -> tuple[CohortRow, T]:
        """Return a cohort, moved on, and what a query finds about it. It writes only if a round is over. Raises NotFound.

        A thousand members ask again and again, so this reads no bodies beside those that the query reads.
        """

        def read(connection: Connection) -> tuple[CohortRow, T]:
            row = self._find(connection, id)
            return row, query(connection, row)

        def move_on(connection: Connection) -> tuple[CohortRow, T]:
            row = self._lock(connection, id)
            return row, query(connection, row)

        row, found = await self.transactions.read(read)
        if is_due(row, self.clock()):
            row, found = await self.transactions.write(move_on)
        if row.state == "adding":
            await self._add_up(id)
            row, found = await self.transactions.read(read)
        return row, found

    # what a member does

    async def join(self, id: str, keys: JoinRequest, caller: Caller, user: str | None) -> Membership:
        """Add a member to a cohort. Raises Forbidden, NotFound, and Conflict for a cohort that is full, or that the same holder has joined."""
        check_may_send_sums(caller)
        body = write_keys(keys)
        holder, token = holder_of(caller, caller.acts_for(user)), self.random(KEY_BYTES).hex()
        hashed = hash_holder(self.name, id, holder)

        def record(connection: Connection) -> int:
            if self._lock(connection, id).state != "joining":
                raise Conflict(f"the cohort {id} takes no further members; join another one")
            members = load_bodies(connection, self.name, id, "joining")
            check_new_keys(body, members.values())
            if not caller.is_trusted and is_member(connection, self.name, id, hashed):
                raise Conflict(f"{holder!r} is a member of the cohort {id}: each member counts once")
            first = CohortMessageRow(
                model=self.name,
                cohort=id,
                number=len(members) + 1,
                round="joining",
                body=body,
                holder=hashed,
                token=hash_token(token),
            )
            add_message(connection, first)
            self._lock(connection, id)  # it may be full now
            return first.number

        number: int = await self.transactions.write(record)
        return Membership(number=number, token=token, context=encode(context_of(id)))

    async def load_member(self, id: str, number: int, token: str) -> MemberAnswer:
        """Return what a member needs for the present round. Raises NotFound, also for a wrong token."""

        def describe(connection: Connection, row: CohortRow) -> MemberAnswer:
            if row.state not in ENDED:
                self._check_member(connection, id, number, token)
            return self._describe(connection, row, number)

        return (await self._look(id, describe))[1]

    def _describe(self, connection: Connection, row: CohortRow, number: int) -> MemberAnswer:
        """Return a member that has sent its message of the present round needs nothing but the state."""
        answer, cohort = describe_member(row), (connection, self.name, row.id)
        if row.state not in ("sharing", "masking", "unmasking") or has_sent(*cohort, number, row.state):
            return answer
        if row.state == "sharing":
            keys = {each: describe_keys(body) for each, body in load_bodies(*cohort, "joining").items()}
            return answer.model_copy(update={"keys": keys})
        if row.state == "unmasking":
            return answer.model_copy(update={"survivors": list_numbers(*cohort, "masking")})
        if not has_sent(*cohort, number, "sharing"):
            return answer  # it has dropped out
        shares = load_bodies(*cohort, "sharing", place_of_share(number))
        sealed = {sender: encode(share) for sender, share in shares.items() if sender != number}
        return answer.model_copy(update={"sealed": sealed})

    async def send(self, id: str, number: int, token: str, message: Message) -> MemberAnswer:
        """Take the message of a member for the present round. A repetition is accepted, another one is a conflict.

        Raises BadInput, NotFound, and Conflict for a round that is over or was left out.
        """
        round = ROUND_OF[type(message)]

        def record(connection: Connection) -> None:
            row = self._lock(connection, id)
            self._check_member(connection, id, number, token)
            known = load_body(connection, self.name, id, number, round)
            if known is None:
                if row.state != round:
                    raise Conflict(f"the cohort {id} is in the state {row.state!r}, in which this message is not taken")
                self._check_left(connection, row, number)
            body = write_body(message, row, number)
            if known is not None and known != body:
                raise Conflict(f"member {number} has sent another message in this round before")
            if known is None:
                own = CohortMessageRow(model=self.name, cohort=id, number=number, round=round, body=body)
                add_message(connection, own)
                self._lock(connection, id)  # it may have been the last one

        await self.transactions.write(record)
        return await self.load_member(id, number, token)

    def _check_left(self, connection: Connection, row: CohortRow, number: int) -> None:
        """Raise Conflict for a member that has left out a round."""
        before = {"sharing": "joining", "masking": "sharing", "unmasking": "masking"}[row.state]
        if not has_sent(connection, self.name, row.id, number, before):
            raise Conflict(f"member {number} has dropped out: it sent nothing in the round before")

    def _check_member(self, connection: Connection, id: str, number: int, token: str) -> None:
        known = load_token(connection, self.name, id, number)
        if known is None or not hmac.compare_digest(known, hash_token(token)):
            raise NotFound(f"the cohort {id} has no member {number} with this X-Cohort-Token")

    def _find(self, connection: Connection, id: str, lock: bool = False) -> CohortRow:
        """Return a cohort. Raises NotFound."""
        row = load_cohort(connection, self.name, id, lock)
        if row is None:
            raise NotFound(f"{self.name} has no cohort {id[:64]!r}")
        return row

    def _lock(self, connection: Connection, id: str) -> CohortRow:
        """Return the cohort, moved on. Until the transaction ends nobody else changes it. Raises NotFound."""
        row = self._find(connection, id, lock=True)
        return advance(
            connection,
            row,
            self.clock(),
            count_least(CohortParameters.model_validate_json(row.parameters), self.limits),
        )

    # the end

    async def _add_up(self, id: str) -> None:
        """Recover the sum of a cohort whose rounds are over, and submit it.

        A recovery takes a core and the memory of all values, so a process does one at a time, and of several processes the one
        that has moved the deadline. If it is gone, the first request after that deadline begins again. A request waits for
        `MAX_WAIT_S` at most; until the sum is submitted, all others are answered that it is being added.
        """
        if self._adding is not None and not self._adding.done():
            return
        self._adding = asyncio.create_task(self._claim_and_add(id))
        self._adding.add_done_callback(log_failure)
        await asyncio.wait({self._adding}, timeout=MAX_WAIT_S)
        if self._adding.done():
            self._adding.result()

    async def _claim_and_add(self, id: str) -> None:
        self.transactions.disk.check_room()
        claimed = await self._claim(id)
        if claimed is not None:
            await self._recover_and_submit(claimed)

    async def _claim(self, id: str) -> CohortRow | None:
        """Return the cohort, if this process is to add it up."""
        row: CohortRow = await self.transactions.read(lambda connection: self._find(connection, id))
        if row.state != "adding" or self.clock() < datetime.fromisoformat(row.deadline):
            return None
        return await self._change(row, {"deadline": (self.clock() + time_to_add(row.member_count)).isoformat()})

    async def _recover_and_submit(self, row: CohortRow) -> None:
        """Recover and submit the sum. The cohort is done in the transaction that stores the sum: one that was ended meanwhile gives none."""
        messages = await self.transactions.read(lambda connection: load_rounds(connection, row))
        if not messages["joining"]:  # it was ended in between
            return
        parameters = CohortParameters.model_validate_json(row.parameters)
        try:
            total_L = await asyncio.to_thread(recover, row, parameters, messages)
            data = await asyncio.to_thread(write_total, row, parameters, total_L)
            most = parameters.max_examples * row.member_count
            finish = partial(finish_or_refuse, model=self.name, id=row.id)
            await submit_sums(self.feedback, data, id_of_feedback(row.id), None, SERVICE, most, finish)
        except (AggregationFailed, BadInput, Conflict, TooLarge) as error:  # nothing is merged
            fail = partial(finish_cohort, model=self.name, id=row.id, reason=str(error))
            await self.transactions.write(fail)
        except Exception:  # such as a store that does not answer
            await self._change(row, {"deadline": (self.clock() + PAUSE).isoformat()})
            raise

    async def _change(self, row: CohortRow, changes: Mapping[str, object]) -> CohortRow | None:
        """See `change_cohort`."""
        changed: CohortRow | None = await self.transactions.write(partial(change_cohort, row=row, changes=changes))
        return changed

    def _least(self, parameters: CohortParameters) -> int:
        return self.limits.min_cohort_members if parameters.least is None else parameters.least


def finish_or_refuse(connection: Connection, model: str, id: str) -> None:
    """End a cohort whose total is stored in this transaction. Raises Conflict for one that was ended meanwhile."""
    if not finish_cohort(connection, model, id):
        raise Conflict(f"the cohort {id} has ended without a total")


def time_to_add(member_count: int) -> timedelta:
    """Return the time that a process has for the total before another one begins as well."""
    return timedelta(seconds=60 + member_count)


def log_failure(task: asyncio.Task[None]) -> None:
    """Log an error, which a waiting request raises too."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log_event(log, "total of a cohort failed", logging.WARNING, reason=str(error))


def check_new_keys(own: bytes, others: Collection[bytes]) -> None:
    """Raise BadInput for keys that are invalid or equal, and Conflict for one of another member.

    With such a key every other member would refuse to go on, so that a single one could end the cohort.
    """
    from online_federated.secure_aggregation.primitives import check_public_key

    keys = split_keys(own)
    try:
        for key in keys:
            check_public_key(key)
    except AggregationFailed as error:
        raise BadInput(str(error)) from None
    if len(keys) < 2:
        raise BadInput("both public keys are the same; draw two")
    if any(keys & split_keys(each) for each in others):
        raise Conflict("a member of the cohort has one of these public keys; draw new ones")


def split_keys(body: bytes) -> set[bytes]:
    """Return both public keys of a member."""
    keys = read_keys(body)
    return {keys.sealing, keys.masking}


def describe_member(row: CohortRow) -> MemberAnswer:
    """Return the part of the answer that is the same for all members, in every round."""
    threshold = choose_threshold(row.member_count) if row.member_count else None
    return MemberAnswer(
        state=cast(CohortStateName, row.state), deadline=row.deadline, threshold=threshold, reason=row.reason
    )
