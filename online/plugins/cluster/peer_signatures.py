"""The signatures by which replicas trust each other: of requests, and of the manifests that answer them.

    request   "request", method, path, timestamp --key of the purpose "peers"--> Authorization: Replica <timestamp>.<signature>
    forwarded the same, with the client of the request that is sent on --------> X-Online-Replica: Replica <timestamp>.<signature>
    manifest  "manifest", model/version, bytes   --the same key----------------> X-Manifest-Signature: <signature>

All replicas have the same signing keys. A signature is valid for one path for five minutes. It lets its holder read that path and
nothing else, so that it may be repeated. The connection is not encrypted by it: see the setting `tls_certificate`.
"""

import re

from online.errors import Unauthorized
from online.state.signing_keys import SigningKeys

PURPOSE = "peers"
MAX_SKEW_S = 300
SIGNATURE_HEADER, SEAL_HEADER = "X-Manifest-Signature", "X-Manifest-Seal"
AUTHORIZATION = re.compile(r"Replica (\d{1,12})\.(\S{1,200})")


def sign_request(keys: SigningKeys, method: str, path: str, at: float) -> str:
    """Return the header Authorization of a request. path: without the prefix of a proxy. at: now, in seconds since 1970."""
    timestamp = str(int(at))
    return f"Replica {timestamp}.{keys.sign(PURPOSE, describe_request(method, path, timestamp))}"


def check_request(keys: SigningKeys, method: str, path: str, authorization: str, at: float) -> None:
    """Raise Unauthorized unless another replica has signed this request within the last five minutes."""
    found = AUTHORIZATION.fullmatch(authorization)
    if found is None:
        raise Unauthorized(
            "only replicas of this service may read this: send 'Authorization: Replica TIMESTAMP.SIGNATURE', signed with the "
            "keys that they share"
        )
    timestamp, signature = found.groups()
    if not keys.check(PURPOSE, describe_request(method, path, timestamp), signature):
        raise Unauthorized(
            "the signature of the replica is not valid: it was made with other keys, or for another path; give all replicas the "
            "same signing keys"
        )
    skew_s = int(timestamp) - at
    if abs(skew_s) > MAX_SKEW_S:
        relation = "ahead of" if skew_s > 0 else "behind"
        raise Unauthorized(
            f"the timestamp {timestamp} of the replica is {abs(skew_s):.0f} s {relation} the clock of this one, and at most "
            f"{MAX_SKEW_S} s are allowed; synchronise the clocks of both machines"
        )


def sign_forwarded(keys: SigningKeys, method: str, target: str, caller: str, at: float) -> str:
    """Return the proof that a replica sends a request on. target: path and query. caller: address and scheme of its client."""
    return sign_request(keys, method, describe_forwarded(target, caller), at)


def check_forwarded(keys: SigningKeys, method: str, target: str, caller: str, signature: str, at: float) -> None:
    """Raise Unauthorized unless another replica has sent this request on within the last five minutes."""
    check_request(keys, method, describe_forwarded(target, caller), signature, at)


def describe_forwarded(target: str, caller: str) -> str:
    """Return what is signed as the path of a forwarded request; no path has a space, so that it is none."""
    return f"forwarded {target} {caller}"


def sign_manifest(keys: SigningKeys, model: str, version: int, manifest: bytes) -> str:
    """Return the signature of a manifest."""
    return keys.sign(PURPOSE, describe_manifest(model, version, manifest))


def check_manifest(keys: SigningKeys, model: str, version: int, manifest: bytes, signature: str) -> bool:
    """Return whether a replica has signed the manifest, for this version of this model."""
    return keys.check(PURPOSE, describe_manifest(model, version, manifest), signature)


def describe_request(method: str, path: str, timestamp: str) -> bytes:
    """Return the bytes whose signature lets a replica send a request."""
    return f"request\n{method}\n{path}\n{timestamp}".encode()


def describe_manifest(model: str, version: int, manifest: bytes) -> bytes:
    """Return the bytes whose signature vouches for a manifest."""
    return f"manifest\n{model}/{version}\n".encode() + manifest
