"""The text encoder of a model as a small file, written when it is first asked for.

frozen encoder --> the cache folder, one file for all models
tuned encoder --> <state>/exports/<model>/encoder/, so that no other model or service deletes it

One file is written at a time, and few requests wait for it (`Turns`).
"""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from online.io.cache import cache_folder
from online.plugins.export.compact import compact_file, find_compact_file
from online.serving.turns import Turns
from online.state.workspace import Workspace


@dataclass(slots=True)
class EncoderFiles:
    """The files of one model."""

    workspace: Workspace
    model: str
    turns: Turns = field(default_factory=partial(Turns, "text encoders"))

    async def load(self, encoder: str) -> Path:
        """Return the network of the tuned encoder with this name, or of the frozen one (an empty name). Raises Overloaded."""
        folder = self.workspace.exports(self.model) / "encoder" if encoder else cache_folder()
        tuned = await asyncio.to_thread(self.workspace.encoders.obtain, encoder)
        if kept := await asyncio.to_thread(find_compact_file, folder, tuned):
            return kept
        return await self.turns.run(partial(asyncio.to_thread, compact_file, folder, tuned))
