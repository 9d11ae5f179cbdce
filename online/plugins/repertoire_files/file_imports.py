"""The import of a file of replies: what each line would do, and all of it in one transaction."""

import asyncio
from collections.abc import Sequence

from sqlalchemy import Connection

from online.errors import BadInput
from online.plugins.repertoire_files.reply_files import (
    FileFormat,
    ImportPlan,
    ParsedFile,
    ParsedLine,
    PlannedLine,
    parse_file,
)
from online.serving.parts import ModelPart
from online.serving.repertoire.repertoire import Admit, Note, Repertoire, ReplyChange
from online.store.repertoire.examples import load_examples
from online.store.repertoire.replies import load_replies, normalize_text


class FileImports(ModelPart):
    """Imports files into the repertoire of one ranker."""

    def __init__(self, repertoire: Repertoire) -> None:
        self.repertoire = repertoire
        self._turn = asyncio.Lock()

    async def parse(self, data: bytes, format: FileFormat) -> ParsedFile:
        """Read a file of replies, beside the event loop and one at a time: a workbook takes time and memory. Raises BadInput."""
        async with self._turn:
            return await asyncio.to_thread(parse_file, data, format)

    async def plan(self, lines: Sequence[ParsedLine]) -> list[PlannedLine]:
        """Return what the lines of a file would change, in order."""
        plan: list[PlannedLine] = await self.repertoire.transactions.read(
            lambda connection: self._plan(connection, lines)
        )
        return plan

    def _plan(self, connection: Connection, lines: Sequence[ParsedLine]) -> list[PlannedLine]:
        rows = load_replies(connection, self.repertoire.name)
        examples = [(reply, text) for reply, _, text in load_examples(connection, self.repertoire.name)]
        ids = iter(self.repertoire.transactions.new_id, None)
        return ImportPlan(rows, examples, ids, self.repertoire.max_text_chars).plan(lines)

    async def import_lines(
        self, lines: Sequence[ParsedLine], skip_bad: bool, admit: Admit, note: Note
    ) -> tuple[list[PlannedLine], int]:
        """Carry out the lines of a file in one transaction. Returns the plan, and its last offset.

        skip_bad: leave out lines with an error; otherwise raise BadInput for the first of them. admit, note: see `Repertoire.add`.
        """
        planned: list[PlannedLine] = []

        def changes(connection: Connection) -> list[ReplyChange]:
            planned[:] = self._plan(connection, lines)
            bad = [(line.number, line.error.message) for line in planned if line.error is not None]
            if bad and not skip_bad:
                number, message = bad[0]
                raise BadInput(f"{len(bad)} lines cannot be imported; the first is line {number}: {message}")
            return [line.change for line in planned if line.change is not None]

        replies = [line.reply for line in lines if line.reply is not None]
        questions = [" ".join(words.split()) for each in replies for words in each.examples]
        texts_to_encode = [*(normalize_text(each.text) for each in replies), *questions]
        short = [words for words in texts_to_encode if words and len(words) <= self.repertoire.max_text_chars]
        rows = await self.repertoire.carry_out(short, changes, admit=admit, note=note)
        return planned, max((row.offset for row in rows), default=0)
