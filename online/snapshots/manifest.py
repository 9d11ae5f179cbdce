"""The manifest: the JSON document that describes one snapshot."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from online.errors import NewerRelease
from online.schemas.json_values import JSONObject
from online.schemas.known_fields import build_known

FORMAT = 1
TAUGHT_UNTIL = (
    "taught_until"  # a metric: the last learned event that is no control event, where that is not the last of all
)
RELEARNED = "relearned"  # a metric: the offset of the last event `relearn` that the state takes into account


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One file of a snapshot. serving: whether a server loads it; learning loads all files."""

    sha256: str
    bytes: int
    serving: bool


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a snapshot folder.

    state_sha256: digest of what was learned; weights_sha256: of the files that a server loads.
    recipe: digest of the model's kind and options. determinism_domain: where the same log gives the
    same bits; empty for exact statistics, which give them everywhere. log_digest: of the log at
    learned_until; empty for an empty log.
    """

    model: str
    version: int
    parent: int | None
    learned_until: int
    created_at: str
    state_sha256: str
    weights_sha256: str
    feature_epoch: str
    recipe: str
    durable: bool
    metrics: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, SnapshotFile] = field(default_factory=dict)
    format: int = FORMAT
    determinism_domain: str = ""
    log_digest: str = ""

    @property
    def taught_until(self) -> int:
        """The last offset at or before learned_until that is no control event."""
        return int(self.metrics.get(TAUGHT_UNTIL, self.learned_until))

    @property
    def relearned(self) -> int:
        """The offset of the last event `relearn` that the state takes into account; 0 if none."""
        return int(self.metrics.get(RELEARNED, 0))

    @classmethod
    def parse(cls, data: bytes) -> "Manifest":
        """Parse a manifest. Raises NewerRelease for a format or a field that this release does not know."""
        values = json.loads(data)
        what = f"the manifest of {values['model']} version {values['version']}"
        if values.get("format", FORMAT) > FORMAT:
            raise NewerRelease(what, f"format {values['format']}")
        values["files"] = {name: build_known(SnapshotFile, file, what) for name, file in values["files"].items()}
        return build_known(cls, values, what)


@dataclass(frozen=True, slots=True)
class ManifestSeal:
    """Signs the manifests of one model, so that no file can be moved from one version or model to another."""

    sign: Callable[[bytes], str]
    check: Callable[[bytes, str], bool]


def digest_files(files: Mapping[str, SnapshotFile]) -> str:
    """Return one sha256 for all files that a server loads."""
    serving = sorted((name, file.sha256) for name, file in files.items() if file.serving)
    return hashlib.sha256(json.dumps(serving).encode()).hexdigest()


def describe_version(manifest: Manifest, live: bool, labels: Sequence[str], state: str = "") -> JSONObject:
    """Return a version as the API and the command line list it."""
    names = ("learned_until", "created_at", "state_sha256", "weights_sha256", "feature_epoch", "durable")
    parent = None if manifest.parent is None else str(manifest.parent)
    return {
        "version": str(manifest.version),
        "parent": parent,
        **{name: getattr(manifest, name) for name in names},
        "metrics": dict(manifest.metrics),
        "live": live,
        "labels": list(labels),
        **({"state": state} if state else {}),
    }
