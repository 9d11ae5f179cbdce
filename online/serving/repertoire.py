"""The replies a ranker may give: list, add with example questions, edit, retire, take in a file; what it starts with."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sqlalchemy import Connection

from online import store
from online.errors import BadInput, Conflict, NotFound, SetupError
from online.schemas import EditReply, Event, NewReply
from online.serving.importing import Change, Plan, Planned, Read
from online.serving.live import Made
from online.serving.predictor import Predictor, change_reply, encode
from online.stream import append_events, head_of, read_events


class Repertoire:
    """Of one ranker. What is added or retired is an event like any feedback: learned, and in the log."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor, self.name = predictor, predictor.name

    async def add(self, new: Sequence[NewReply], origin: str | None = None) -> list[store.ReplyRow]:
        """Add replies with their example questions in one transaction; a text that is there gets the examples."""
        texts = [store.laid_out(reply.text) for reply in new]
        names = [reply.id or self.predictor.new_id() for reply in new]

        def changes(connection: Connection) -> list[Change]:
            return [self._addition(connection, *each) for each in zip(new, names, texts, strict=True)]

        spoken = [*texts, *(example for reply in new for example in reply.examples)]
        return await self._carry_out(spoken, changes, origin)

    def _addition(self, connection: Connection, reply: NewReply, name: str, text: str) -> Change:
        known = store.reply_with_text(connection, self.name, text)
        if known is not None:
            return Change(known.id, None, tuple(reply.examples), active=True)
        if store.reply_with_id(connection, self.name, name) is not None:
            raise Conflict(f"{self.name} has another reply with the id {reply.id!r}")
        return Change(name, text, tuple(reply.examples), new=True)

    async def edit(self, id: str, edit: EditReply) -> store.ReplyRow:
        """Another wording, more examples, given or not: whatever of these is there. The id stays."""
        text = None if edit.text is None else store.laid_out(edit.text)

        def changes(connection: Connection) -> list[Change]:
            known = store.reply_with_id(connection, self.name, id)
            if known is None:
                raise NotFound(f"{self.name} has no reply {id!r}")
            other = None if text is None else store.reply_with_text(connection, self.name, text)
            if other is not None and other.id != id:
                raise Conflict(f"another reply of {self.name} says that already: {other.id!r}")
            return [Change(id, None if text == known.text else text, tuple(edit.examples), edit.active)]

        return (await self._carry_out([*([text] if text else []), *edit.examples], changes))[0]

    async def plan(self, lines: Sequence[Read]) -> list[Planned]:
        """What lines of a file would change, one after the other."""
        plan: list[Planned] = await self.predictor.read(lambda connection: self._plan(connection, lines))
        return plan

    def _plan(self, connection: Connection, lines: Sequence[Read]) -> list[Planned]:
        rows = store.replies_of(connection, self.name)
        examples = [(reply, text) for reply, _, text in store.examples_of(connection, self.name)]
        ids = iter(self.predictor.new_id, None)
        return Plan(rows, examples, ids, self.predictor.settings.max_text_chars).of(lines)

    async def take_in(self, lines: Sequence[Read], skip_bad: bool) -> tuple[list[Planned], int]:
        """Carry out what lines say, all of it in one transaction; the plan, and the last offset of it.

        skip_bad: without those that cannot be meant. Raises BadInput where there are any otherwise.
        """
        carried: list[Planned] = []

        def changes(connection: Connection) -> list[Change]:
            carried[:] = self._plan(connection, lines)
            bad = [planned for planned in carried if planned.error]
            if bad and not skip_bad:
                raise BadInput(f"{len(bad)} lines cannot be taken; the first is line {bad[0].number}: {bad[0].error}")
            return [planned.change for planned in carried if planned.change is not None]

        said = [line.said for line in lines if line.said is not None]
        questions = [" ".join(words.split()) for each in said for words in each.examples]
        spoken = [*(store.laid_out(each.text) for each in said), *questions]
        short = [words for words in spoken if words and len(words) <= self.predictor.settings.max_text_chars]
        rows = await self._carry_out(short, changes)
        return carried, max((row.offset for row in rows), default=0)

    async def _carry_out(
        self, spoken: Iterable[str], changes: Callable[[Connection], Sequence[Change]], origin: str | None = None
    ) -> list[store.ReplyRow]:
        """Record changes in one transaction. spoken: every text that any of them may bring."""
        texts = list(dict.fromkeys(spoken))

        async def attempt(made: Made) -> list[store.ReplyRow]:
            features = dict(zip(texts, await encode(made.encoder, texts), strict=True))

            def record(connection: Connection) -> list[store.ReplyRow]:
                self.predictor.hold_encoder(connection)
                self.predictor.check_encoder(connection, [made.encoder_name])
                return [self._record(connection, change, features, origin) for change in changes(connection)]

            return list(await self.predictor.commit(record))

        return await self.predictor.as_made_now(attempt)

    def _record(
        self, connection: Connection, change: Change, features: Mapping[str, bytes], origin: str | None
    ) -> store.ReplyRow:
        key = f"{store.ADDED}:{origin or self.predictor.new_id()}:{change.id}"
        known = None if change.new else store.reply_with_id(connection, self.name, change.id)
        events = list(self._events(connection, change, known, key, features))
        offsets = append_events(connection, self.name, events)
        if change.new and change.text is not None:
            store.add_reply(connection, self.name, change.id, change.text, offsets[0], change.active is not False)
        row = store.reply_with_id(connection, self.name, change.id)
        assert row is not None, "it was there, or was added"
        return row.model_copy(update={"offset": offsets[-1] if offsets else row.offset})

    def _events(
        self,
        connection: Connection,
        change: Change,
        known: store.ReplyRow | None,
        key: str,
        features: Mapping[str, bytes],
    ) -> Iterator[Event]:
        """What the learner is told. A wording makes a reply one that is given; a retired one stays retired."""
        id, text = change.id, change.text
        if text is not None:
            yield Event(f"{key}#reply", "reply", features[text], id, text)
        if text is not None and known is not None:
            store.reword_reply(connection, self.name, id, text)
        if change.active and known is not None:
            yield change_reply(connection, self.name, id, True, f"{key}#restore")
        for place, words in enumerate(change.examples):
            yield Event(f"{key}#{place}", "label", features[words], id, words)
        stays_away = text is not None and known is not None and not known.active and change.active is None
        if change.active is False or stays_away:
            yield change_reply(connection, self.name, id, False, f"{key}#retire")

    async def forget_example(self, id: str, offset: int) -> int:
        """Take back an example question; the offset from which on it is un-learned."""
        taken_back: int = await self.predictor.commit(
            lambda connection: self._record_forgetting(connection, id, offset)
        )
        return taken_back

    def _record_forgetting(self, connection: Connection, id: str, offset: int) -> int:
        self.predictor.hold_encoder(connection)
        there = 0 < offset <= head_of(connection, self.name)
        found = read_events(connection, self.name, offset - 1, 1) if there else []
        event = found[0].event if found else None
        known = event is not None and event.kind == "label" and event.label == id
        if event is None or not known or not event.id.startswith(f"{store.ADDED}:"):
            raise NotFound(f"the reply {id!r} of {self.name} has no example with the offset {offset}")
        return append_events(connection, self.name, [store.retraction(event, offset)])[0]

    async def retire(self, id: str) -> int:
        """The offset from which on the reply is not given any more."""
        key = f"{self.predictor.new_id()}#retire"
        offset: int = await self.predictor.commit(lambda connection: self._record_retirement(connection, id, key))
        return offset

    def _record_retirement(self, connection: Connection, id: str, key: str) -> int:
        if store.reply_with_id(connection, self.name, id) is None:
            raise NotFound(f"{self.name} has no reply {id!r}")
        return append_events(connection, self.name, [change_reply(connection, self.name, id, False, key)])[0]


def read_repertoire(path: Path) -> list[NewReply]:
    """JSONL of {"id", "text", "examples"}. Raises SetupError that names the line."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise SetupError(f"the repertoire {path} cannot be read: {error.strerror}") from None
    replies = []
    for number, line in enumerate(lines, 1):
        try:
            replies += [NewReply.model_validate_json(line)] if line.strip() else []
        except ValueError:
            raise SetupError(
                f'the repertoire {path}, line {number}: expected {{"id", "text", "examples": [...]}}'
            ) from None
    return replies


def starter() -> Path:
    """The repertoire that ships: inside an installed package, or beside the sources."""
    package = Path(__file__).parent.parent
    return next(
        path
        for path in (package / "data" / "repertoire.jsonl", package.parent / "data" / "repertoire.jsonl")
        if path.exists()
    )
