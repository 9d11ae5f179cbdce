"""Events of the stream: what a learner reads, in order."""

import hashlib
import json
from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec import json as fast_json
from msgspec.structs import replace

from online.errors import NewerRelease
from online.schemas.control import ControlChange

TO_JSON = json.JSONEncoder(separators=(",", ":")).encode
POSITIVE_REWARD = 0.5  # rewards are in [0, 1]
BODY = ("id", "kind", "label", "text", "reward", "choice", "target")  # fields of an event's body, in their order
PLACE = ("offset", "digest")  # fields of an event that say where it is
FIELDS = {*BODY, "holder", "scope", "control", "signal"}  # those, and the ones that are left out where they are empty
Scope = Literal["", "reply", "question"]
EventKind = Literal[
    "label",
    "reward",
    "correction",
    "reply",
    "retire",
    "restore",
    "sums",
    "outcome",
    "declare",
    "retraction",
    "void",
    "relearn",
    "control",
]
KINDS = frozenset(get_args(EventKind))


def is_positive(reward: float) -> bool:
    """Return whether a reward says that the answer was right, rather than wrong."""
    return reward >= POSITIVE_REWARD


class Event(Struct, frozen=True, eq=False):
    """One thing that happened to a model. It is self-contained: a learner needs nothing but events.

    id: of the feedback, or derived from it. label: the right class or reply id, or what was
    answered; of `retire` and `restore`, the class or reply that is meant. text: of a new reply, or
    of an example question. choice: what the prediction had chosen, for prequential scores. target:
    of a retraction, the whole event that it retracts. holder: a number for the caller or user whose feedback
    it is; 0 for a trusted one. scope: of a correction, how far it reaches (online/models/ranker/corrections.py), and of
    the reply that it brought; "" where its giver did not say.

    offset: its place in the stream, which gives it when it is appended; 0 before that. digest: of the log up to this event,
    from `chain_digest`; "" in a log without digests, such as an exported one. Two events are equal wherever they are.

    sums: what a device has learned by itself; `features` is the file of its sums (online/models/contributions.py).

    control: of an event of that kind, what changes about the versions that answer, as JSON (online/schemas/control.py).

    signal: of a reward, what it was read from, such as "copy" or "regenerate"; "" for a thumb.

    outcome: what an answer took, as JSON in `text`; label: the route that gave it. declare: facts of a route, or settings of all.

    Three kinds teach nothing. void: the place of an event of an erased user, of which nothing is left.
    relearn: events before it were made void, so what was learned from them is learned again. control: a roll back, a freeze,
    a label and the like.
    """

    id: str
    kind: EventKind
    features: bytes = b""
    label: str = ""
    text: str = ""
    reward: float = 1.0
    choice: str | None = None
    target: "Event | None" = None
    holder: int = 0
    scope: Scope = ""
    control: str = ""
    signal: str = ""
    offset: int = 0
    digest: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name not in PLACE)

    @property
    def superseded(self) -> str:
        """The reply that a correction supersedes: what had been answered; "" for none."""
        return self.choice if self.scope == "reply" and self.choice and self.choice != self.label else ""

    @property
    def is_feedback(self) -> bool:
        """Whether the event is a caller's feedback about an answer or an input.

        Examples of the repertoire are labels with a text.
        """
        return self.kind in ("label", "reward", "correction") and not self.text

    @property
    def teaches_nothing(self) -> bool:
        """Whether every learner passes over the event."""
        return self.kind in ("void", "relearn", "control")

    def at(self, offset: int, digest: str = "") -> "Event":
        """Return the event at its place in the stream."""
        return replace(self, offset=offset, digest=digest)

    def body(self) -> str:
        """Return everything except the features, as JSON."""
        fields = {name: getattr(self, name) for name in BODY}
        if self.holder:  # left out otherwise, as before there were holders
            fields["holder"] = self.holder
        if self.scope:  # likewise
            fields["scope"] = self.scope
        if self.control:
            fields["control"] = self.control
        if self.signal:
            fields["signal"] = self.signal
        if self.target is not None:
            fields["target"] = {"offset": self.target.offset, "event": self.target.body()}
        return TO_JSON(fields)

    @classmethod
    def parse(cls, body: str, features: bytes, offset: int = 0, digest: str = "") -> "Event":
        """Parse an event. features: those of its input, stored beside it.

        Raises NewerRelease for a kind, a field or a control change that this release does not know: who passed over it would
        learn something else than the others.
        """
        fields = parse_json(body)
        if fields["kind"] not in KINDS:
            raise NewerRelease(f"the event of the log at offset {offset}", fields["kind"])
        if unknown := fields.keys() - FIELDS:
            raise NewerRelease(f"the event of the log at offset {offset}", min(unknown))
        if fields["kind"] == "control":
            ControlChange.parse(fields["control"])
        target = fields.pop("target")
        if target is not None:
            target = cls.parse(target["event"], features, target["offset"])
        return cls(features=features, target=target, offset=offset, digest=digest, **fields)


def parse_json(text: str) -> dict[str, Any]:
    """Parse an object fast. What msgspec refuses, such as a lone surrogate, is read by `json`, which has written it."""
    try:
        found: dict[str, Any] = fast_json.decode(text)
    except (ValueError, RecursionError):
        found = json.loads(text)
    return found


def chain_digest(previous: str, offset: int, event: Event) -> str:
    """Return the digest of a log that ends with this event, from the digest of the log before it.

    Equal digests mean the same events in the same order. Texts and features are left out: both are blanked when a
    user is erased, and features change with the encoder. A digest is computed once, when the event is appended.
    """
    target = None if event.target is None else event.target.offset
    later = [
        field for field in (event.scope, event.control, event.signal) if field
    ]  # left out otherwise, as before there were any
    fields = [previous, offset, event.id, event.kind, event.label, event.reward, event.choice, target, *later]
    return hashlib.sha256(TO_JSON(fields).encode()).hexdigest()
