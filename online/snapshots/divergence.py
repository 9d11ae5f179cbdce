"""The place in the log at which a replica learned another state than the published one.

learner --at a difference--> snapshots/<model>/DIVERGED --> the servers of this replica report it --> every replica, an operator

The learner that starts again has not diverged until it finds a difference again.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from online.io.atomic import replace_file

FILE = "DIVERGED"


@dataclass(frozen=True, slots=True)
class Divergence:
    """A place in the log at which the state of this replica differed from the published one.

    ours, published: the hashes of both states. determinism_domain: of the learner of this replica.
    """

    version: int
    learned_until: int
    ours: str
    published: str
    determinism_domain: str = ""


def write_divergence(folder: Path, divergence: Divergence | None) -> None:
    """Note a divergence for the servers of this replica; None: that there is none. A full disk prevents it without an error."""
    with suppress(OSError):
        if divergence is None:
            (folder / FILE).unlink(missing_ok=True)
        else:
            replace_file(folder / FILE, json.dumps(asdict(divergence)).encode(), durable=False)


def read_divergence(folder: Path) -> Divergence | None:
    """Return what the newest learner has noted; None where it has learned what was published."""
    try:
        return Divergence(**json.loads((folder / FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
