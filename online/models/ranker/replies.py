"""The state of each reply in a ranker: its wordings, and whether it is retired."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from online.models.encoders.text import TEXT_WIDTH
from online.schemas.json_values import JSONArray


@dataclass(slots=True)
class Reply:
    """A reply of the repertoire. Every event about it is stored by offset, so that each can be retracted.

    wordings: offset -> (text, its features). changes: offset -> restored (True) or retired (False).
    local: offsets of the wordings that a correction of scope question brought.
    """

    id: str
    wordings: dict[int, tuple[str, bytes]]
    changes: dict[int, bool]
    local: set[int] = field(default_factory=set)

    @property
    def is_forgotten(self) -> bool:
        """Whether all its wordings were erased."""
        return not self.wordings

    @property
    def text(self) -> str:
        """The present wording; "" if it was erased."""
        return "" if self.is_forgotten else self.wordings[max(self.wordings)][0]

    @property
    def features(self) -> bytes:
        """The features of the present wording."""
        return bytes(TEXT_WIDTH) if self.is_forgotten else self.wordings[max(self.wordings)][1]

    @property
    def first_offset(self) -> int:
        """The offset of its first wording; 0 if it is forgotten."""
        return min(self.wordings, default=0)

    @property
    def is_local(self) -> bool:
        """Whether it was taught for single questions only. A new wording by a curator makes it a reply as any other."""
        return not self.is_forgotten and self.local.issuperset(self.wordings)

    @property
    def is_active(self) -> bool:
        """Whether the reply may be given: it is neither erased nor retired."""
        changes = dict.fromkeys(self.wordings, True) | self.changes
        return not self.is_forgotten and changes[max(changes)]

    def to_json(self) -> JSONArray:
        """Return the reply as JSON; `from_json` is the inverse."""
        wordings = [[at, text, features.hex()] for at, (text, features) in self.wordings.items()]
        local = [sorted(self.local)] if self.local else []  # left out otherwise, as before there were scopes
        return [self.id, wordings, list(self.changes.items()), *local]

    @classmethod
    def from_json(cls, id: str, wordings: JSONArray, changes: JSONArray, local: Sequence[int] = ()) -> "Reply":
        """Return the reply that a state holds."""
        texts = {at: (text, bytes.fromhex(features)) for at, text, features in wordings}
        return cls(id, texts, dict(changes), set(local))
