"""Callers, and their scopes.

credential --api/auth--> Caller: an id, scopes, and the user on whose behalf it acts
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Literal, get_args

Scope = Literal["predict", "feedback", "teach", "curate", "operate", "erase", "keys", "impersonate"]
PublicTeaching = Literal["off", "review", "on"]
CallerKind = Literal["key", "user", "visitor", "link", "local", "open", "admin", "service", "anonymous"]
PERSON_KINDS: tuple[CallerKind, ...] = ("user", "visitor")
SCOPES: tuple[Scope, ...] = get_args(Scope)
SCOPE_HELP: dict[Scope, str] = {
    "predict": "ask for predictions, and read what is public about a model: its status, versions, replies and curve",
    "feedback": "rate and correct what the caller itself was answered, ask what became of it, and retract it",
    "teach": "add new replies, new classes and examples, and import files of replies",
    "curate": "change, retire and restore replies and classes, review held feedback, and read the questions of others",
    "operate": "roll back, label, freeze, end quarantines, run jobs and replays, and read reports and metrics",
    "erase": "erase users",
    "keys": "create, list, revoke and rotate keys",
    "impersonate": "act for any user: the field `user` of a body and the header X-User count",
}


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request.

    id: opaque, and unique among all callers; `kind` says what proves it: an API key, a proxy that has signed in a user, the cookie
    or token of a visitor, a signed feedback URL, the machine itself, the setting `open`, the admin key, the service, or nothing.
    user: on whose behalf it acts; None for a caller that may act for any user (impersonate).
    models: the only models it may use; None for all. is_reviewed: what it teaches is held until a curator accepts it.
    is_visitor: whether anybody can become such a caller again and again, with a new cookie.
    key_name: of the API key, which a rotation keeps; "" without one.
    problem: why its credential does not count; "" if it sent none or a valid one.
    """

    id: str
    scopes: frozenset[Scope]
    user: str | None = None
    models: frozenset[str] | None = None
    address: str = ""
    is_reviewed: bool = False
    is_visitor: bool = False
    problem: str = ""
    kind: CallerKind = "anonymous"
    key_name: str = ""

    def may(self, scope: Scope) -> bool:
        """Return whether the caller has a scope."""
        return scope in self.scopes

    def may_act_for(self, user: str | None) -> bool:
        """Return whether what was recorded for a user (None: for nobody in particular) is this caller's own."""
        return "impersonate" in self.scopes or (self.user is not None and user == self.user)

    def acts_for(self, named: str | None) -> str | None:
        """Return the user on whose behalf a request is made. named: by the request itself; it counts with impersonate only."""
        return named if "impersonate" in self.scopes else self.user

    def may_use(self, model: str) -> bool:
        """Return whether the caller may use a model."""
        return self.models is None or model in self.models

    @property
    def is_person(self) -> bool:
        """Whether its id names a person, whose name the audit log replaces by a pseudonym."""
        return self.kind in PERSON_KINDS

    @property
    def is_trusted(self) -> bool:
        """Whether its feedback is neither counted against quotas nor capped: a curator's, or that of the machine's user."""
        return "curate" in self.scopes


def caller_with(id: str, scopes: Iterable[Scope], address: str = "") -> Caller:
    """Return a caller with these scopes, for work that no request asked for and for tests."""
    return Caller(id, frozenset(scopes), address=address)


ANONYMOUS = Caller("anonymous", frozenset())
SERVICE = Caller(
    "service", frozenset(SCOPES), kind="service"
)  # work that the service does by itself, such as copying ratings


def network_of(address: str) -> str:
    """Return what one subscriber has: an IPv4 address as it is, or the /64 network of an IPv6 address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped) if mapped is not None else str(IPv6Address(int(parsed) >> 64 << 64))
    return address
