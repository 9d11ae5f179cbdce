"""Changes of the versions that answer, other than publications: each is an event of the log.

    operator or guard --ControlChange--> event `control` in the log --> every replica applies it

A replica that joins reads them in order, so that it has the same labels, the same freeze and the same roll back as the others.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from online.schemas.events import Event
from online.schemas.json_values import JSON

ControlAction = Literal[
    "roll_back",
    "freeze",
    "thaw",
    "label",
    "unlabel",
    "quarantine",
    "end_quarantine",
    "adopt_encoder",
    "forget_versions",
]


@dataclass(frozen=True, slots=True)
class ControlChange:
    """One change. Fields that an action does not need have their defaults.

    version: that a roll back makes live, that gets a label, or before which all are deleted. freezes: whether a roll back also
    freezes the model. label, percent: of a version, and its share of the traffic. at: the instant of a freeze, ISO 8601.
    reason, cause: of a freeze, in words and for programs. is_held: whether versions that were rolled back stay so after a thaw.
    since: the first event of a quarantine. outcome: of a quarantine. encoder: the sha256 of one that is adopted.
    """

    action: ControlAction
    version: int | None = None
    freezes: bool = False
    label: str = ""
    percent: float = 0.0
    at: str = ""
    reason: str = ""
    cause: Mapping[str, JSON] | None = None
    is_held: bool = True
    since: int = 0
    outcome: str = ""
    encoder: str = ""

    def event(self, id: str) -> Event:
        """Return the event that records it. id: unlike every other one of the log."""
        defaults = asdict(ControlChange(self.action))
        stated = {name: value for name, value in asdict(self).items() if name == "action" or value != defaults[name]}
        return Event(id, "control", control=json.dumps(stated, sort_keys=True, separators=(",", ":")))

    @classmethod
    def parse(cls, event: Event) -> "ControlChange":
        """Return what an event records. Raises ValueError or TypeError for one that another release has written."""
        return cls(**json.loads(event.control))
