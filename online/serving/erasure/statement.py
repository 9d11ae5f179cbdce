"""The signed statement of an erasure: what was removed from where, and the state of each model before and after.

    statement without `signature` --canonical JSON--> signed with the key for erasures of the state folder

Only the holder of the state folder can make or check one. A rotation of its keys leaves older statements valid.
"""

import hmac
import json
from collections.abc import Mapping

from online.errors import BadInput
from online.schemas.json_values import JSONObject
from online.snapshots.manifest import Manifest
from online.state.signing_keys import SigningKeys
from online.store.erasure.jobs import ErasureModelRow
from online.store.erasure.relearnings import RelearningRow

FORMAT = "online-erasure/1"
PURPOSE = "erasure"


def digest_user(keys: SigningKeys, user: str) -> str:
    """Return a digest of a user's name that only the holder of the keys can compare with a name."""
    oldest = keys.valid_keys(PURPOSE)[-1]  # it stays the same when the keys are rotated
    return hmac.digest(bytes.fromhex(oldest.secret), user.encode(), "sha256").hex()


def sign_statement(keys: SigningKeys, statement: Mapping[str, object]) -> dict[str, object]:
    """Return the statement with its signature."""
    return {**statement, "signature": keys.sign(PURPOSE, canonical(statement))}


def check_statement(keys: SigningKeys, signed: object) -> None:
    """Raise BadInput that says why a statement is not one of this state folder."""
    if not isinstance(signed, dict) or signed.get("format") != FORMAT:
        raise BadInput(f"this is no statement of an erasure: it lacks the format {FORMAT!r}")
    statement = {name: value for name, value in signed.items() if name != "signature"}
    signature = str(signed.get("signature"))
    if signature.partition(".")[0] not in {key.id for key in keys.valid_keys(PURPOSE)}:
        raise BadInput("the statement was signed with another key than those of this state folder")
    if not keys.check(PURPOSE, canonical(statement), signature):
        raise BadInput("the statement was changed after it was signed: its signature does not match")


def canonical(statement: Mapping[str, object]) -> bytes:
    """Return the canonical JSON that is signed."""
    return json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def describe_state(manifest: Manifest) -> JSONObject:
    """Return the identity of a state for the statement."""
    return {name: getattr(manifest, name) for name in ("version", "learned_until", "state_sha256")}


def describe_relearning(row: RelearningRow) -> JSONObject:
    """Return the hashes that prove the un-learning, for the statement."""
    return {
        "learned_until": row.learned_until,
        "state_sha256_user_subtracted": row.subtracted_sha256,
        "state_sha256_learned_without_user": row.relearned_sha256,
        "is_same": row.subtracted_sha256 == row.relearned_sha256,
    }


def describe_model(model: ErasureModelRow) -> JSONObject:
    """Return what was removed of a model."""
    counts = json.loads(model.counts)
    kept = {name: value for name, value in counts.items() if name not in ("offset", "relearn_offset")}
    return {"feedback": 0, "predictions": 0, "events": 0, **kept}
