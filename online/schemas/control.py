"""Changes of the versions that answer, other than publications: each is an event of the log.

    operator or guard --ControlChange--> event `control` in the log --> every replica applies it

A replica that joins reads them in order, so that it has the same labels, the same freeze and the same roll back as the others.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from online.errors import NewerRelease
from online.schemas.json_values import JSON
from online.schemas.known_fields import build_known

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
ACTIONS = frozenset(get_args(ControlAction))
WHAT = "a control event of the log"


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

    def dump(self) -> str:
        """Return everything but defaults as JSON, which an event of the log records."""
        defaults = asdict(ControlChange(self.action))
        stated = {name: value for name, value in asdict(self).items() if name == "action" or value != defaults[name]}
        return json.dumps(stated, sort_keys=True, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> "ControlChange":
        """Return the inverse of `dump`. Raises NewerRelease for an action or a field that this release does not know."""
        stated = json.loads(text)
        if stated["action"] not in ACTIONS:
            raise NewerRelease(WHAT, stated["action"])
        return build_known(cls, stated, WHAT)
