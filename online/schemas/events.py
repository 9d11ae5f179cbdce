"""Events of the stream: what a learner reads, in order. Entries give each event its offset."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

POSITIVE_REWARD = 0.5  # rewards are in [0, 1]
EventKind = Literal["label", "reward", "correction", "reply", "retire", "restore", "retraction"]


def is_positive(reward: float) -> bool:
    """Whether a reward says that the answer was right, rather than wrong."""
    return reward >= POSITIVE_REWARD


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a model. It is self-contained: a learner needs nothing but events.

    id: of the feedback, or derived from it. label: the right class or reply id, or what was
    answered; of `retire` and `restore`, the class or reply that is meant. text: of a new reply, or
    of an example question. choice: what the prediction had chosen, for prequential scores. target:
    of a retraction, the whole event that it retracts. holder: a number for the caller or user whose feedback
    it is; 0 for a trusted one.
    """

    id: str
    kind: EventKind
    features: bytes = b""
    label: str = ""
    text: str = ""
    reward: float = 1.0
    choice: str | None = None
    target: "Target | None" = None
    holder: int = 0

    @property
    def is_feedback(self) -> bool:
        """Whether the event is a caller's feedback about an answer or an input.

        Examples of the repertoire are labels with a text.
        """
        return self.kind in ("label", "reward", "correction") and not self.text

    def body(self) -> str:
        """Everything except the features, as JSON."""
        fields = asdict(self)
        del fields["features"]
        if not self.holder:  # as before there were holders
            del fields["holder"]
        if self.target is not None:
            fields["target"]["event"] = self.target.event.body()
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def parse(cls, body: str, features: bytes) -> "Event":
        fields = json.loads(body)
        target = fields.pop("target")
        if target is not None:
            target = Target(target["offset"], cls.parse(target["event"], features))
        return cls(features=features, target=target, **fields)


@dataclass(frozen=True, slots=True)
class Target:
    offset: int
    event: Event


@dataclass(frozen=True, slots=True)
class Entry:
    """An event at its place in the stream."""

    offset: int
    event: Event
