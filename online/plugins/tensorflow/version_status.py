"""The state of each version, as TensorFlow Serving describes it."""

from online.errors import NotFound
from online.plugins.tensorflow.errors import VersionErrors
from online.schemas.json_values import JSONObject
from online.serving.live import LiveModel
from online.serving.versions import ServedVersion, VersionSelector


def find_version(live: LiveModel, selector: VersionSelector) -> ServedVersion:
    """Return the selected version, else the live one. Raises NotFound or BadInput."""
    with VersionErrors():
        return live.find(selector) or live.current


def version_statuses(live: LiveModel, version: int | None = None) -> list[JSONObject]:
    """Return the status of one version, or of all. Raises NotFound."""
    known = live.known_versions()
    if version is None:
        return [_version_status(live, each) for each in known]
    if version not in known:
        raise NotFound(f"Could not find version {version} of model {live.snapshots.model}")
    return [_version_status(live, version)]


def _version_status(live: LiveModel, version: int) -> dict[str, object]:
    state = live.state_of(version)
    error = {"error_code": "OK", "error_message": ""}
    if version in live.damaged and state == "END":
        error = {"error_code": "DATA_LOSS", "error_message": "the version is damaged, or cannot predict"}
    return {"version": str(version), "state": state, "status": error}
