"""Cohorts of one model: create one, join it, take the messages of its rounds, and add up what its members have sent.

    messages in the store --recover_sum--> the sum of the survivors --submit_sums--> one event of the log, or none

The service sees masked values and the sum. It never sees the values of one member, as long as it passes on the keys that the
members have sent: see `online.secure_aggregation`.
"""

import asyncio
import binascii
import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import cast

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from online.errors import BadInput, Conflict, NotFound, Overloaded, PreconditionFailed, TooLarge
from online.models import Options, create
from online.models.classifier import Classifier
from online.models.contributions import find_merging_obstacle
from online.models.exchange.sums_file import write_sums
from online.models.retirement import WithRetiredClasses
from online.models.statistics.exact import ExactStatistics
from online.schemas.access.callers import SERVICE, Caller
from online.schemas.exchange.cohorts import (
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
from online.secure_aggregation.errors import AggregationFailed
from online.secure_aggregation.layout import Layout
from online.secure_aggregation.messages import Group, PublicKeys, SealedShares, Unmasking, choose_threshold
from online.secure_aggregation.shamir import SHARE_BYTES
from online.secure_aggregation.sums import choose_layout, unflatten_sums
from online.serving.feedback.admission import holder_of
from online.serving.feedback.cohorts.rounds import advance
from online.serving.feedback.feedback import Feedback
from online.serving.feedback.sums.admission import check_may_send_sums
from online.serving.feedback.sums.submission import submit_sums
from online.store.cohorts import (
    CohortMessageRow,
    CohortRow,
    add_cohort,
    add_message,
    count_open,
    list_open,
    load_cohort,
    load_message,
    load_messages,
    set_cohort,
)

MAX_OPEN = 16  # cohorts of one model that have not ended
KEY_BYTES = 32
SEALED_BYTES = 2 * SHARE_BYTES + 16  # two shares, and the tag of AES-GCM
Message = SharesMessage | ValuesMessage | UnmaskingMessage
ROUND_OF: Mapping[type[Message], str] = {
    SharesMessage: "sharing",
    ValuesMessage: "masking",
    UnmaskingMessage: "unmasking",
}


class Cohorts:
    """The cohorts of one model. clock: the present instant, in UTC. random: a cryptographic source of bytes."""

    def __init__(self, feedback: Feedback, clock: Callable[[], datetime], random: Callable[[int], bytes]) -> None:
        self.feedback, self.clock, self.random = feedback, clock, random
        self.name, self.transactions, self.settings = feedback.name, feedback.transactions, feedback.settings
        self._adding = asyncio.Lock()

    # what a curator does

    async def create(self, parameters: CohortParameters) -> CohortAnswer:
        """Begin a cohort. Raises BadInput, and Overloaded if too many have not ended."""
        check_installed()
        options, settings = self._options, self.settings
        obstacle = find_merging_obstacle(self.feedback.spec.kind, options)
        if obstacle is not None:
            raise BadInput(f"{self.name} takes no sums: {obstacle}")
        if len({*parameters.classes}) < len(parameters.classes):
            raise BadInput("a class is named twice")
        least = self._least(parameters)
        if not settings.min_cohort_members <= least <= parameters.size <= settings.max_cohort_members:
            raise BadInput(
                f"a cohort of {least} to {parameters.size} members; it may have {settings.min_cohort_members} "
                f"(min_cohort_members) to {settings.max_cohort_members} (max_cohort_members)"
            )
        if parameters.max_examples > settings.max_merge_examples:
            raise BadInput(
                f"a member may have {settings.max_merge_examples:,} examples at most (max_merge_examples), "
                f"not {parameters.max_examples:,}"
            )
        model = create_classifier(options)
        size = choose_values_layout(parameters, model.statistics.width).byte_count
        if size > settings.max_merge_bytes:
            raise TooLarge(
                f"the values of one member take {size:,} bytes; at most {settings.max_merge_bytes:,} are read"
            )
        now = self.clock()
        row = CohortRow(
            model=self.name,
            id=self.random(16).hex(),
            state="joining",
            parameters=parameters.model_dump_json(),
            width=model.statistics.width,
            features=json.dumps(model.describe_features()),
            member_count=0,
            created_at=now.isoformat(),
            deadline=(now + timedelta(seconds=parameters.round_s)).isoformat(),
            reason=None,
        )

        def record(connection: Connection) -> None:
            for id in list_open(connection, self.name):
                self._load(connection, id)  # one whose time is up counts no longer
            if count_open(connection, self.name) >= MAX_OPEN:
                raise Overloaded(f"{self.name} has {MAX_OPEN} cohorts that have not ended; try again later")
            add_cohort(connection, row)

        await self.transactions.write(record)
        return await self.load(row.id)

    async def load(self, id: str) -> CohortAnswer:
        """How far a cohort is, after it was moved on. Raises NotFound."""
        row, members = await self.transactions.write(lambda connection: self._load_with_members(connection, id))
        row = await self._add_up(row)
        parameters = CohortParameters.model_validate_json(row.parameters)
        layout = choose_values_layout(parameters, row.width)
        return CohortAnswer(
            id=row.id,
            state=cast(CohortStateName, row.state),
            parameters=parameters,
            width=row.width,
            features=json.loads(row.features),
            member_count=row.member_count or members,
            threshold=choose_threshold(row.member_count) if row.member_count else None,
            deadline=row.deadline,
            reason=row.reason,
            segments=[(segment.length, segment.bits) for segment in layout.segments],
        )

    def _load_with_members(self, connection: Connection, id: str) -> tuple[CohortRow, int]:
        row = self._load(connection, id)
        return row, len(load_messages(connection, self.name, id, "joining"))

    # what a member does

    async def join(self, id: str, keys: JoinRequest, caller: Caller, user: str | None) -> Membership:
        """Raises Forbidden, NotFound, and Conflict for a cohort that is full, or that the same holder has joined."""
        check_may_send_sums(caller)
        own_keys = decode_keys(keys)
        holder, token = holder_of(caller, caller.acts_for(user)), self.random(KEY_BYTES).hex()
        hashed = hash_token(f"{self.name}/{id}/{holder}")  # names are not kept

        def record(connection: Connection) -> int:
            if self._load(connection, id).state != "joining":
                raise Conflict(f"the cohort {id} takes no further members; join another one")
            members = load_messages(connection, self.name, id, "joining")
            check_new_keys(own_keys, members)
            if not caller.is_trusted and any(member.holder == hashed for member in members):
                raise Conflict(f"{holder!r} is a member of the cohort {id}: everybody counts once")
            number = len(members) + 1
            first = CohortMessageRow(
                model=self.name,
                cohort=id,
                number=number,
                round="joining",
                body=keys.model_dump_json().encode(),
                holder=hashed,
                token=hash_token(token),
            )
            add_message(connection, first)
            self._load(connection, id)  # it may be full now
            return number

        number: int = await self.transactions.write(record)
        return Membership(number=number, token=token, context=encode(context_of(id)))

    async def load_member(self, id: str, number: int, token: str) -> MemberAnswer:
        """What a member needs for the present round. Raises NotFound, also for a wrong token."""

        def read(connection: Connection) -> tuple[CohortRow, MemberAnswer]:
            row = self._load(connection, id)
            if row.state not in ("done", "failed"):
                self._check_member(connection, id, number, token)
            return row, self._describe(connection, row, number)

        row: CohortRow
        answer: MemberAnswer
        row, answer = await self.transactions.write(read)
        added = await self._add_up(row)
        return answer if added is row else describe_member(added)

    def _describe(self, connection: Connection, row: CohortRow, number: int) -> MemberAnswer:
        answer = describe_member(row)
        if row.state == "sharing":
            joined = load_messages(connection, self.name, row.id, "joining")
            keys = {each.number: JoinRequest.model_validate_json(each.body) for each in joined}
            return answer.model_copy(update={"keys": keys})
        if row.state == "masking":
            shared = load_messages(connection, self.name, row.id, "sharing")
            sealed = {each.number: SharesMessage.model_validate_json(each.body).sealed for each in shared}
            own = {sender: shares[number] for sender, shares in sealed.items() if sender != number}
            return answer.model_copy(update={"sealed": own if number in sealed else None})
        if row.state == "unmasking":
            survivors = [each.number for each in load_messages(connection, self.name, row.id, "masking")]
            return answer.model_copy(update={"survivors": survivors})
        return answer

    async def send(self, id: str, number: int, token: str, message: Message) -> MemberAnswer:
        """Take the message of a member for the present round. A repetition is accepted, another one is a conflict.

        Raises BadInput, NotFound, and Conflict for a round that is over or was left out.
        """
        round, body = ROUND_OF[type(message)], message.model_dump_json().encode()

        def record(connection: Connection) -> None:
            row = self._load(connection, id)
            self._check_member(connection, id, number, token)
            known = load_message(connection, self.name, id, number, round)
            if known is not None:
                if known.body != body:
                    raise Conflict(f"member {number} has sent another message in this round before")
                return
            if row.state != round:
                raise Conflict(f"the cohort {id} is in the state {row.state!r}, in which this message is not taken")
            self._check_left(connection, row, number)
            check_message(message, row, number)
            add_message(connection, CohortMessageRow(model=self.name, cohort=id, number=number, round=round, body=body))

        await self.transactions.write(record)
        return await self.load_member(id, number, token)

    def _check_left(self, connection: Connection, row: CohortRow, number: int) -> None:
        """Raises Conflict for a member that has left out a round."""
        before = {"sharing": "joining", "masking": "sharing", "unmasking": "masking"}[row.state]
        if load_message(connection, self.name, row.id, number, before) is None:
            raise Conflict(f"member {number} has dropped out: it sent nothing in the round before")

    def _check_member(self, connection: Connection, id: str, number: int, token: str) -> None:
        member = load_message(connection, self.name, id, number, "joining")
        if member is None or not hmac.compare_digest(member.token, hash_token(token)):
            raise NotFound(f"the cohort {id} has no member {number} with this X-Cohort-Token")

    def _load(self, connection: Connection, id: str) -> CohortRow:
        """The cohort, moved on. Raises NotFound."""
        row = load_cohort(connection, self.name, id, lock=True)
        if row is None:
            raise NotFound(f"{self.name} has no cohort {id[:64]!r}")
        return advance(connection, row, self.clock(), self._least(CohortParameters.model_validate_json(row.parameters)))

    # the end

    async def _add_up(self, row: CohortRow) -> CohortRow:
        """Recover the sum of a cohort whose rounds are over, and submit it. Any process may do so, and several at once.

        The feedback has an id that follows from the cohort's, so that it is learned once. Within a process, whoever asks
        meanwhile waits, because a recovery takes a core and the memory of all values.
        """
        if row.state != "adding":
            return row
        async with self._adding:
            present = await self._reload(row)
            return await self._recover_and_submit(present) if present.state == "adding" else present

    async def _recover_and_submit(self, row: CohortRow) -> CohortRow:
        messages = await self.transactions.read(lambda connection: load_rounds(connection, row))
        if not messages["joining"]:  # another process has ended it in between
            return await self._reload(row)
        parameters = CohortParameters.model_validate_json(row.parameters)
        try:
            total_L = await asyncio.to_thread(recover, row, parameters, messages)
            data = await asyncio.to_thread(write_total, row, parameters, total_L)
            most = parameters.max_examples * row.member_count
            await submit_sums(self.feedback, data, id_of_feedback(row.id), None, SERVICE, most)
        except (AggregationFailed, BadInput, Conflict) as error:  # nothing is merged
            return await self._end(row, "failed", str(error))
        return await self._end(row, "done", None)

    async def _reload(self, row: CohortRow) -> CohortRow:
        found: CohortRow = await self.transactions.read(lambda connection: load_cohort(connection, self.name, row.id))
        return found

    async def _end(self, row: CohortRow, state: str, reason: str | None) -> CohortRow:
        def record(connection: Connection) -> CohortRow:
            present = load_cohort(connection, self.name, row.id, lock=True)
            assert present is not None, "cohorts are not deleted"
            if present.state == "adding":
                present.state, present.reason = state, reason
                set_cohort(connection, present)
            return present

        ended: CohortRow = await self.transactions.write(record)
        return ended

    def _least(self, parameters: CohortParameters) -> int:
        return self.settings.min_cohort_members if parameters.least is None else parameters.least

    @property
    def _options(self) -> Options:
        return self.transactions.live.encoder_config.options


def check_installed() -> None:
    """Raises PreconditionFailed."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise PreconditionFailed("cohorts need the library cryptography: pip install 'online[secure]'") from None


def create_classifier(options: Options) -> Classifier:
    model = create("classifier", options)
    own = model.model if isinstance(model, WithRetiredClasses) else model
    assert isinstance(own, Classifier), "other kinds take no sums"
    return own


def choose_values_layout(parameters: CohortParameters, width: int) -> Layout:
    return choose_layout(len(parameters.classes), width, parameters.size * parameters.max_examples)


def context_of(id: str) -> bytes:
    return b"online cohort " + id.encode()


def id_of_feedback(id: str) -> str:
    """The id of the feedback that the sum of a cohort becomes. No client can choose it: theirs have no '#'."""
    return f"cohort#{id}"


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def decode_keys(keys: JoinRequest) -> list[bytes]:
    """Raises BadInput."""
    return [decode(key, KEY_BYTES) for key in (keys.sealing, keys.masking)]


def check_new_keys(own: Sequence[bytes], members: Sequence[CohortMessageRow]) -> None:
    """Raise BadInput for keys that are invalid or equal, and Conflict for one of another member.

    With such a key every other member would refuse to go on, so that a single one could end the cohort.
    """
    from online.secure_aggregation.primitives import check_public_key

    try:
        for key in own:
            check_public_key(key)
    except AggregationFailed as error:
        raise BadInput(str(error)) from None
    if len({*own}) < len(own):
        raise BadInput("both public keys are the same; draw two")
    known = {key for each in members for key in decode_keys(JoinRequest.model_validate_json(each.body))}
    if known & {*own}:
        raise Conflict("a member of the cohort has one of these public keys; draw new ones")


def encode(data: bytes) -> str:
    return b64encode(data).decode()


def decode(text: str, length: int | None = None) -> bytes:
    """Raises BadInput."""
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadInput("a value is no base64") from None
    if length is not None and len(data) != length:
        raise BadInput(f"a value has {len(data)} bytes, where {length} are expected")
    return data


def describe_member(row: CohortRow) -> MemberAnswer:
    """The part of the answer that is the same for all members, in every round."""
    threshold = choose_threshold(row.member_count) if row.member_count else None
    return MemberAnswer(
        state=cast(CohortStateName, row.state), deadline=row.deadline, threshold=threshold, reason=row.reason
    )


def check_message(message: Message, row: CohortRow, number: int) -> None:
    """Raises BadInput for a message that no member sends in its round."""
    members = {*range(1, row.member_count + 1)}
    if isinstance(message, SharesMessage):
        decode(message.commitment, KEY_BYTES)
        if message.sealed.keys() != members - {number}:
            raise BadInput("shares are sealed for every other member, and for nobody else")
        for sealed in message.sealed.values():
            decode(sealed, SEALED_BYTES)
    elif isinstance(message, ValuesMessage):
        layout = choose_values_layout(CohortParameters.model_validate_json(row.parameters), row.width)
        decode(message.packed, layout.byte_count)
    else:
        shares = (message.masking_keys, message.seeds)
        if message.masking_keys.keys() & message.seeds.keys() or not {*shares[0], *shares[1]} <= members:
            raise BadInput("of a member one secret is revealed at most, and of nobody else")
        for share in (*shares[0].values(), *shares[1].values()):
            decode(share, SHARE_BYTES)


Rounds = Mapping[str, Mapping[int, bytes]]  # round -> number of the member -> body


def load_rounds(connection: Connection, row: CohortRow) -> Rounds:
    return {
        round: {each.number: each.body for each in load_messages(connection, row.model, row.id, round)}
        for round in ("joining", "sharing", "masking", "unmasking")
    }


def recover(row: CohortRow, parameters: CohortParameters, messages: Rounds) -> NDArray[np.int64]:
    """The sum of the survivors' values. Raises AggregationFailed."""
    from online.secure_aggregation.server import recover_sum

    layout = choose_values_layout(parameters, row.width)
    group = Group(context_of(row.id), choose_threshold(row.member_count), layout)
    keys = {n: JoinRequest.model_validate_json(body) for n, body in messages["joining"].items()}
    shared = {n: SharesMessage.model_validate_json(body) for n, body in messages["sharing"].items()}
    values = {n: ValuesMessage.model_validate_json(body) for n, body in messages["masking"].items()}
    revealed = {n: UnmaskingMessage.model_validate_json(body) for n, body in messages["unmasking"].items()}
    return recover_sum(
        group,
        {n: PublicKeys(decode(each.sealing), decode(each.masking)) for n, each in keys.items()},
        {n: SealedShares(decode_each(each.sealed), decode(each.commitment)) for n, each in shared.items()},
        {n: decode(each.packed) for n, each in values.items()},
        {n: Unmasking(decode_each(each.masking_keys), decode_each(each.seeds)) for n, each in revealed.items()},
    )


def decode_each(texts: Mapping[int, str]) -> dict[int, bytes]:
    return {number: decode(text) for number, text in texts.items()}


def write_total(row: CohortRow, parameters: CohortParameters, total_L: NDArray[np.int64]) -> bytes:
    """The file of the sums of a cohort, of the features on which its members agreed."""
    tensors = unflatten_sums(total_L, len(parameters.classes), row.width)
    return write_sums(ExactStatistics.from_tensors(parameters.classes, tensors), json.loads(row.features))
