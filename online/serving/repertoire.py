"""The replies a ranker may give: list, add with example questions, retire, and what a service starts with."""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection

from online import store
from online.errors import Conflict, NotFound, SetupError
from online.schemas import Event, NewReply
from online.serving.live import Made
from online.serving.predictor import Predictor, change_reply, encode
from online.stream import append_events


class Repertoire:
    """Of one ranker. What is added or retired is an event like any feedback: learned, and in the log."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor, self.name = predictor, predictor.name

    async def all(self) -> list[store.ReplyRow]:
        rows: list[store.ReplyRow] = await self.predictor.read(
            lambda connection: store.replies_of(connection, self.name)
        )
        return rows

    async def add(self, new: Sequence[NewReply], origin: str | None = None) -> list[store.ReplyRow]:
        """Add replies with their example questions in one transaction; a text that is there gets the examples."""
        texts = [[" ".join(reply.text.split()), *reply.examples] for reply in new]
        names = [reply.id or self.predictor.new_id() for reply in new]

        async def add(made: Made) -> list[store.ReplyRow]:
            encoded = [await encode(made.encoder, group) for group in texts]

            def record(connection: Connection) -> list[store.ReplyRow]:
                self.predictor.hold_encoder(connection)
                self.predictor.check_encoder(connection, [made.encoder_name])
                return self._record(connection, new, names, texts, encoded, origin)

            return list(await self.predictor.commit(record))

        return await self.predictor.as_made_now(add)

    def _record(
        self,
        connection: Connection,
        new: Sequence[NewReply],
        names: Sequence[str],
        texts: Sequence[Sequence[str]],
        encoded: Sequence[Sequence[bytes]],
        origin: str | None,
    ) -> list[store.ReplyRow]:
        added = []
        for reply, name, (text, *_), (features, *examples) in zip(new, names, texts, encoded, strict=True):
            known = store.reply_with_text(connection, self.name, text)
            if known is None and store.reply_with_id(connection, self.name, name) is not None:
                raise Conflict(f"{self.name} has another reply with the id {reply.id!r}")
            id = known.id if known else name
            key = f"{store.ADDED}:{origin or self.predictor.new_id()}:{id}"
            first = change_reply(connection, self.name, id, True, f"{key}#restore") if known else None
            events = [first or Event(f"{key}#reply", "reply", features, id, text)]
            spoken = zip(examples, reply.examples, strict=True)
            events += [
                Event(f"{key}#{place}", "label", asked, id, words) for place, (asked, words) in enumerate(spoken)
            ]
            offsets = append_events(connection, self.name, events)
            if known is None:
                store.add_reply(connection, self.name, id, text, offsets[0])
            added.append(store.ReplyRow(model=self.name, id=id, text=text, folded="", offset=offsets[-1], active=True))
        return added

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
