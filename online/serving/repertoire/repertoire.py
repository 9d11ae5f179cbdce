"""The replies that a ranker may give: add with example questions, edit, retire; the first repertoire."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from online.errors import Conflict, NotFound
from online.schemas.events import Event
from online.schemas.replies import EditReply, NewReply
from online.serving.feedback.events import change_reply
from online.serving.feedback.retraction import check_not_expired
from online.serving.predictor import encode
from online.serving.transactions import Transactions
from online.serving.versions import EncoderConfig
from online.store.events import append_events, build_retraction, derive_event_id, head_of, lock_log, read_events
from online.store.repertoire.replies import (
    ReplyRow,
    add_reply,
    find_reply,
    find_reply_by_text,
    is_example,
    normalize_text,
    update_reply_text,
)


@dataclass(frozen=True, slots=True)
class ReplyChange:
    """A change to one reply. text, active: None leaves them. examples: questions to add."""

    id: str
    text: str | None = None
    examples: tuple[str, ...] = ()
    active: bool | None = None
    new: bool = False


RecordedChange = tuple[ReplyChange, Sequence[Event]]  # with the events that it has brought
Admit = Callable[[Connection, Sequence[ReplyChange]], None]
Note = Callable[[Connection, Sequence[RecordedChange]], None]


def admit_all(connection: Connection, changes: Sequence[ReplyChange]) -> None:
    """Admit changes of the service itself and of curators."""


def note_nothing(connection: Connection, changes: Sequence[RecordedChange]) -> None:
    """Note changes of the service itself and of curators."""


class Repertoire:
    """The repertoire of one ranker. Each change is an event in the log, learned like feedback."""

    def __init__(self, transactions: Transactions, max_text_chars: int) -> None:
        self.transactions, self.name, self.max_text_chars = transactions, transactions.name, max_text_chars

    async def add(
        self,
        new: Sequence[NewReply],
        origin: str | None = None,
        admit: Admit = admit_all,
        note: Note = note_nothing,
    ) -> list[ReplyRow]:
        """Add replies with their example questions in one transaction. A known text gets the examples.

        admit, note: called with the changes in the transaction, before and after they are recorded; what they raise undoes
        them.
        """
        texts = [normalize_text(reply.text) for reply in new]
        names = [reply.id or self.transactions.new_id() for reply in new]

        def changes(connection: Connection) -> list[ReplyChange]:
            return [self._addition(connection, *each) for each in zip(new, names, texts, strict=True)]

        texts_to_encode = [*texts, *(example for reply in new for example in reply.examples)]
        return await self.carry_out(texts_to_encode, changes, origin, admit, note)

    async def add_first(self, new: Sequence[NewReply]) -> list[ReplyRow]:
        """Add the first replies to an empty log, which have their own ids; none where another replica was first."""

        def check_is_empty(connection: Connection, changes: Sequence[ReplyChange]) -> None:
            lock_log(connection, self.name)
            if head_of(connection, self.name):
                raise Conflict(f"the log of {self.name} has begun, and a first repertoire comes before it")

        try:
            return await self.add(new, "starter", check_is_empty)
        except Conflict:  # of a reply that the other has added, or of the log that has begun
            if await self.transactions.read(partial(head_of, model=self.name)):
                return []
            raise

    def _addition(self, connection: Connection, reply: NewReply, name: str, text: str) -> ReplyChange:
        known = find_reply_by_text(connection, self.name, text)
        if known is not None:
            return ReplyChange(known.id, None, tuple(reply.examples), active=True)
        if find_reply(connection, self.name, name) is not None:
            raise Conflict(f"{self.name} has another reply with the id {reply.id!r}")
        return ReplyChange(name, text, tuple(reply.examples), new=True)

    async def edit(self, id: str, edit: EditReply) -> ReplyRow:
        """Change the text of a reply, add examples, retire or restore it. The id stays. Raises NotFound and Conflict."""
        text = None if edit.text is None else normalize_text(edit.text)

        def changes(connection: Connection) -> list[ReplyChange]:
            known = find_reply(connection, self.name, id)
            if known is None:
                raise NotFound(f"{self.name} has no reply {id!r}")
            other = None if text is None else find_reply_by_text(connection, self.name, text)
            if other is not None and other.id != id:
                raise Conflict(f"another reply of {self.name} has this text already: {other.id!r}")
            return [ReplyChange(id, None if text == known.text else text, tuple(edit.examples), edit.active)]

        return (await self.carry_out([*([text] if text else []), *edit.examples], changes))[0]

    async def carry_out(
        self,
        texts_to_encode: Iterable[str],
        changes: Callable[[Connection], Sequence[ReplyChange]],
        origin: str | None = None,
        admit: Admit = admit_all,
        note: Note = note_nothing,
    ) -> list[ReplyRow]:
        """Record changes in one transaction. texts_to_encode: every text that a change may bring. admit, note: see `add`."""
        texts = list(dict.fromkeys(texts_to_encode))

        async def attempt(config: EncoderConfig) -> list[ReplyRow]:
            features = dict(zip(texts, await encode(config.encoder, texts), strict=True))

            def record(connection: Connection) -> list[ReplyRow]:
                lock_log(connection, self.name)  # first: what the changes depend on stays as it is read
                self.transactions.hold_encoder(connection)
                self.transactions.check_encoder(connection, [config.encoder_name])
                planned = changes(connection)
                admit(connection, planned)
                recorded = [self._record(connection, change, features, origin) for change in planned]
                note(connection, [(change, events) for change, (_, events) in zip(planned, recorded, strict=True)])
                return [row for row, _ in recorded]

            return list(await self.transactions.commit(record, needs_room=origin != "starter"))

        return await self.transactions.retry_on_encoder_change(attempt)

    def _record(
        self, connection: Connection, change: ReplyChange, features: Mapping[str, bytes], origin: str | None
    ) -> tuple[ReplyRow, list[Event]]:
        """Return the reply after the change, and the events of the change."""
        key = f"added:{origin or self.transactions.new_id()}:{change.id}"
        known = None if change.new else find_reply(connection, self.name, change.id)
        events = list(self._events(connection, change, known, key, features))
        offsets = append_events(connection, self.name, events, source="repertoire")
        if change.new and change.text is not None:
            add_reply(connection, self.name, change.id, change.text, offsets[0], change.active is not False)
        row = find_reply(connection, self.name, change.id)
        assert row is not None, "it was known, or was added above"
        return row.model_copy(update={"offset": offsets[-1] if offsets else row.offset}), events

    def _events(
        self,
        connection: Connection,
        change: ReplyChange,
        known: ReplyRow | None,
        key: str,
        features: Mapping[str, bytes],
    ) -> Iterator[Event]:
        """Yield the events of a change. A new text restores a reply, unless it is retired and stays so."""
        id, text = change.id, change.text
        if text is not None:
            yield Event(derive_event_id(key, "reply"), "reply", features[text], id, text)
        if text is not None and known is not None:
            update_reply_text(connection, self.name, id, text)
        if change.active and known is not None:
            yield change_reply(connection, self.name, id, True, derive_event_id(key, "restore"))
        for place, words in enumerate(change.examples):
            yield Event(derive_event_id(key, str(place)), "label", features[words], id, words)
        stays_retired = text is not None and known is not None and not known.active and change.active is None
        if change.active is False or stays_retired:
            yield change_reply(connection, self.name, id, False, derive_event_id(key, "retire"))

    async def retract_example(self, id: str, offset: int) -> int:
        """Retract an example question. Returns the offset of the retraction. Raises NotFound, and PreconditionFailed for one that has expired."""
        retracted_at: int = await self.transactions.commit(
            lambda connection: self._record_example_retraction(connection, id, offset)
        )
        return retracted_at

    def _record_example_retraction(self, connection: Connection, id: str, offset: int) -> int:
        self.transactions.hold_encoder(connection)
        if not is_example(connection, self.name, id, offset):
            raise NotFound(f"the reply {id!r} of {self.name} has no example with the offset {offset}")
        check_not_expired(connection, self.name, offset, f"the example with the offset {offset}")
        event = read_events(connection, self.name, offset - 1, 1)[0]
        return append_events(connection, self.name, [build_retraction(event, offset)], source="repertoire")[0]

    async def retire(self, id: str) -> int:
        """Stop giving a reply. Returns the offset from which that holds. Raises NotFound."""
        key = derive_event_id(self.transactions.new_id(), "retire")
        offset: int = await self.transactions.commit(lambda connection: self._record_retirement(connection, id, key))
        return offset

    def _record_retirement(self, connection: Connection, id: str, key: str) -> int:
        if find_reply(connection, self.name, id) is None:
            raise NotFound(f"{self.name} has no reply {id!r}")
        event = change_reply(connection, self.name, id, False, key)
        return append_events(connection, self.name, [event], source="operator")[0]
