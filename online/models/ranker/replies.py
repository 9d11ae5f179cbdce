"""What a ranker keeps of each reply: its wordings, and whether it is retired."""

from dataclasses import dataclass
from typing import Any

from online.models.encoders.text import TEXT_WIDTH


@dataclass(slots=True)
class Reply:
    """A reply of the repertoire. Every event about it is stored by offset, so that each can be retracted.

    wordings: offset -> (text, its features). changes: offset -> restored (True) or retired (False).
    """

    id: str
    wordings: dict[int, tuple[str, bytes]]
    changes: dict[int, bool]

    @property
    def is_forgotten(self) -> bool:
        return not self.wordings

    @property
    def text(self) -> str:
        return "" if self.is_forgotten else self.wordings[max(self.wordings)][0]

    @property
    def features(self) -> bytes:
        return bytes(TEXT_WIDTH) if self.is_forgotten else self.wordings[max(self.wordings)][1]

    @property
    def is_active(self) -> bool:
        changes = dict.fromkeys(self.wordings, True) | self.changes
        return not self.is_forgotten and changes[max(changes)]

    def to_json(self) -> list[Any]:
        """The reply as JSON; `from_json` is the inverse."""
        wordings = [[at, text, features.hex()] for at, (text, features) in self.wordings.items()]
        return [self.id, wordings, list(self.changes.items())]

    @classmethod
    def from_json(cls, id: str, wordings: list[Any], changes: list[Any]) -> "Reply":
        return cls(id, {at: (text, bytes.fromhex(features)) for at, text, features in wordings}, dict(changes))
