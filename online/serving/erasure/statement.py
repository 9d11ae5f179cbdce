"""The signed statement of an erasure: what was removed from where, and the state of each model before and after.

    statement without `signature` --canonical JSON--> HMAC-SHA256 by a key derived from the state folder's secret

Only the holder of the secret can make or check one.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from online.errors import BadInput

FORMAT = "online-erasure/1"
STATEMENTS, USERS = b"erasure statements", b"erased users"  # purposes of the keys
KEY_DIGITS = 16


def derive_key(secret: str, purpose: bytes) -> bytes:
    return hmac.digest(bytes.fromhex(secret), purpose, "sha256")


def digest_user(secret: str, user: str) -> str:
    """A digest of a user's name that only the holder of the secret can compare with a name."""
    return hmac.new(derive_key(secret, USERS), user.encode(), "sha256").hexdigest()


def sign_statement(secret: str, statement: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statement with its signature."""
    key = derive_key(secret, STATEMENTS)
    mac = hmac.new(key, canonical(statement), "sha256").hexdigest()
    return {**statement, "signature": {"key": name_key(key), "hmac_sha256": mac}}


def check_statement(secret: str, signed: Any) -> None:
    """Raises BadInput that says why a statement is not one of this state folder."""
    if not isinstance(signed, dict) or signed.get("format") != FORMAT:
        raise BadInput(f"this is no statement of an erasure: it lacks the format {FORMAT!r}")
    statement = {name: value for name, value in signed.items() if name != "signature"}
    signature, expected = signed.get("signature"), sign_statement(secret, statement)["signature"]
    given = signature if isinstance(signature, dict) else {}
    if given.get("key") != expected["key"]:
        raise BadInput("the statement was signed with another secret than that of this state folder")
    if not hmac.compare_digest(str(given.get("hmac_sha256")).encode(), expected["hmac_sha256"].encode()):
        raise BadInput("the statement was changed after it was signed: its signature does not match")


def canonical(statement: Mapping[str, Any]) -> bytes:
    return json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def name_key(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:KEY_DIGITS]
