"""The issuer of a signed feedback URL. The holder of the URL may do nothing that its issuer may not do now.

    caller --name_issuer--> `issuer` of the URL, which is signed --find_grant--> what the holder may do when it is used

A key is named by a digest of its name, which a rotation keeps. Visitors name nobody: what a visitor may do
follows from the user of the prediction, and any other such URL rates, and teaches only where no key is needed.
"""

from hashlib import sha256

from online.api.auth.callers import ADMIN_ID, OPEN_SCOPES, Callers
from online.plugins.feedback_links.errors import LinkInvalid
from online.schemas.access.callers import Caller, Scope

GRANTED: frozenset[Scope] = frozenset({"feedback", "teach"})
DIGEST_DIGITS = 16
EVERYTHING = ("local", ADMIN_ID)


def name_issuer(caller: Caller) -> str:
    """Return the issuer of URLs that are created for a caller; "" for a visitor."""
    match caller.kind:
        case "key":
            return digest_name(caller.key_name)
        case "user":
            return "proxy"
        case "local" | "admin" | "open":
            return caller.kind
    return ""


def find_grant(callers: Callers, issuer: str, model: str) -> frozenset[Scope]:
    """Return what the holder of a URL may do on a model, now: rate, and teach.

    Raises LinkInvalid where the issuer may no longer give feedback on the model, or is no more.
    """
    granted = GRANTED & find_scopes(callers, issuer, model)
    if "feedback" not in granted:
        raise LinkInvalid(
            "the caller for which this feedback URL was created may not give feedback (any more): its key was revoked, has "
            f"expired or lacks the scope feedback on {model}"
        )
    return granted


def find_scopes(callers: Callers, issuer: str, model: str) -> frozenset[Scope]:
    """Return the scopes that an issuer has now on a model; empty if it does not exist any more."""
    if not issuer:
        return frozenset({"feedback"}) if callers.needs_keys else GRANTED
    if issuer in EVERYTHING:
        return GRANTED
    if issuer == "open":
        return frozenset(OPEN_SCOPES if callers.settings.open or not callers.needs_keys else ())
    if issuer == "proxy":
        return frozenset(callers.settings.identity_scopes if callers.settings.identity_header else ())
    keys = [key for key in callers.keys.list_active() if digest_name(key.name) == issuer]
    return frozenset[Scope]().union(*(key.scopes for key in keys if key.models is None or model in key.models))


def digest_name(name: str) -> str:
    """Return the name under which a key is written into URLs: a truncated SHA-256, so that the name itself stays private."""
    return sha256(f"issuer {name}".encode()).hexdigest()[:DIGEST_DIGITS]
