"""Find out who sends a request.

key in Authorization, X-API-Key or X-Admin-Key --> that key's scopes, or nothing where it is invalid
token of a visitor of the widget               --> as a visitor; without it, nobody: what the browser sends by itself, such as
                                                   cookies, does not count on a page of `widget_origins`
header of a trusted proxy                      --> the user that it names
cookie of a session                            --> the scopes of the key that signed in
this machine, where it needs no key            --> every scope
cookie of a visitor, where there are visitors  --> predict, feedback, and teach as `public_teaching` says
anybody, where the service is open             --> predict, feedback, teach, curate
otherwise                                      --> nobody, without scopes
"""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from starlette.types import Scope

from online.api.auth.cookies import SESSION_COOKIE, VISITOR_COOKIE, Cookies, parse_cookies
from online.api.auth.keys import PREFIX, ApiKey, KeyTable
from online.api.auth.locality import is_forwarding_header, is_loopback, is_proxy_header, names_this_machine
from online.api.auth.origins import VISITOR_TOKEN, limited_origins, widget_origins
from online.api.auth.proxies import TrustedProxies
from online.schemas.access import callers
from online.schemas.access.callers import ANONYMOUS, SCOPES, Caller
from online.settings import Settings, reveal

ADMIN_ID = "admin"
VISITOR = "visitor:"  # how the ids of visitors begin
OPEN_SCOPES: tuple[callers.Scope, ...] = ("predict", "feedback", "teach", "curate", "impersonate")
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})  # that change nothing
BEARER = "bearer "
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
INVALID_KEY = "the key is not valid: it is misspelt, revoked or expired"
NO_TOKEN = (
    "a page of another origin needs the token of a visitor, which GET /v1/session gives to those in widget_origins"
)


@dataclass(slots=True)
class Credentials:
    """The parts of a request that show who sends it. headers: by name in lower case; over gRPC, the metadata.

    address: of its connection. may_use_cookies: whether a page of this service may have sent it, so that its cookies count.
    is_own_page: whether a page of this service has sent it, as far as its browser says.
    """

    headers: Mapping[str, str]
    address: str
    host: str | None = None  # None over gRPC, which no page in a browser speaks
    may_use_cookies: bool = False
    is_own_page: bool = False
    is_forwarded: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_forwarded = any(map(is_proxy_header, self.headers))

    @property
    def key(self) -> str:
        """The key that it shows; "" for none."""
        headers = self.headers
        if key := headers.get("x-api-key") or headers.get("x-admin-key"):
            return key
        authorization = headers.get("authorization", "")
        return authorization[len(BEARER) :].strip() if authorization[: len(BEARER)].lower() == BEARER else ""

    @property
    def is_local(self) -> bool:
        """Whether the request comes straight from this machine and names it as its host, which no web page can imitate."""
        if self.is_forwarded or not is_loopback(self.address):
            return False
        return self.host is None or names_this_machine(self.host, self.headers.get("origin", ""))


def read_credentials(scope: Scope) -> Credentials:
    """Return the credentials of an HTTP request."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    client = scope.get("client")
    is_own_page = headers.get("sec-fetch-site", "") in ("same-origin", "none") or (
        "sec-fetch-site" not in headers and headers.get("origin", "").partition("://")[2] == headers.get("host")
    )
    may_use_cookies = scope["method"] in SAFE_METHODS or is_own_page
    return Credentials(headers, client[0] if client else "", headers.get("host", ""), may_use_cookies, is_own_page)


class Callers:
    """Finds the caller of each request. It changes nothing and refuses nobody: `check_scope` does."""

    def __init__(self, settings: Settings, keys: KeyTable, cookies: Cookies) -> None:
        self.settings, self.keys, self.cookies = settings, keys, cookies
        self.admin_key = reveal(settings.admin_key)
        self.admin_digest = sha256((self.admin_key or "").encode()).hexdigest()
        self.is_on_loopback = is_loopback(settings.host)
        self.proxies = TrustedProxies(settings.trusted_proxies)
        self.widget_origins, self.limited_origins = widget_origins(settings), limited_origins(settings)

    @property
    def needs_keys(self) -> bool:
        """Whether callers have to show who they are: a key exists, or proxies name the users."""
        return self.admin_key is not None or bool(self.keys) or self.settings.identity_header is not None

    @property
    def is_open_to_this_machine(self) -> bool:
        """Whether programs on this machine may do everything without a key."""
        return self.settings.admin == "local" or (self.is_on_loopback and not self.needs_keys)

    async def find(self, credentials: Credentials) -> Caller:
        """Return the caller, with the address that the request comes from."""
        if credentials.is_forwarded and any(map(is_forwarding_header, credentials.headers)):
            self.proxies.report_unlisted(credentials.address)
        if credentials.key and not self.knows(credentials.key):
            await self.keys.read_again()
        return replace(self._find(credentials), address=self.find_address(credentials))

    def knows(self, key: str) -> bool:
        """Return whether a key needs no refusal: it is valid, or of another server's form."""
        return self._is_admin_key(key) or not key.startswith(PREFIX) or self.keys.find(key) is not None

    def _find(self, credentials: Credentials) -> Caller:
        given = credentials.key
        if given and (caller := self.of_key(given)) is not None:
            return caller
        if (origin := self.widget_origin(credentials)) is not None:
            if caller := self._of_token(credentials, origin):
                return caller
            if origin in self.limited_origins:
                return replace(ANONYMOUS, problem=NO_TOKEN)
        if caller := self._of_proxy(credentials) or self._of_session(credentials):
            return caller
        is_ours = given.startswith(PREFIX) or "x-admin-key" in credentials.headers
        if not is_ours:  # clients of other servers send a key of theirs where none is needed
            if self.is_open_to_this_machine and credentials.is_local:
                return Caller("local", frozenset(SCOPES), kind="local")
            if caller := self._of_visitor(credentials):
                return caller
            if self.settings.open:
                return Caller("open", frozenset(OPEN_SCOPES), kind="open")
        return replace(ANONYMOUS, problem=INVALID_KEY) if given else ANONYMOUS

    # keys and sessions

    def of_key(self, given: str) -> Caller | None:
        """Return the caller that a key makes; None if it is not valid."""
        if self._is_admin_key(given):
            return Caller(ADMIN_ID, frozenset(SCOPES), kind="admin")
        key = self.keys.find(given) if given.startswith(PREFIX) else None
        return None if key is None else caller_of(key)

    def _is_admin_key(self, given: str) -> bool:
        return self.admin_key is not None and hmac.compare_digest(given.encode(), self.admin_key.encode())

    def describe_key(self, given: str) -> tuple[str, str] | None:
        """Return the id and the digest of a key, for a session; None if it is not valid."""
        if self._is_admin_key(given):
            return ADMIN_ID, self.admin_digest
        key = self.keys.find(given) if given.startswith(PREFIX) else None
        return None if key is None else (key.id, key.digest)

    def _of_session(self, credentials: Credentials) -> Caller | None:
        session = self.cookies.read_session(self._cookie(credentials, SESSION_COOKIE))
        if session is None:
            return None
        if session.key_id == ADMIN_ID and self.admin_key is not None:
            is_valid = self.cookies.is_valid(session, self.admin_digest)
            return Caller(ADMIN_ID, frozenset(SCOPES), kind="admin") if is_valid else None
        key = self.keys.get(session.key_id)
        return caller_of(key) if key is not None and self.cookies.is_valid(session, key.digest) else None

    # people

    def _of_proxy(self, credentials: Credentials) -> Caller | None:
        """Return the user that a trusted proxy has signed in. A name with control characters is none."""
        header = self.settings.identity_header
        name = decode_name(credentials.headers.get(header.lower(), "")) if header is not None else ""
        if not name or CONTROL.search(name) or not self.proxies.trusts(credentials.address):
            return None
        id = f"user:{name[:120]}"
        return Caller(id, frozenset(self.settings.identity_scopes), user=id, kind="user")

    def _of_visitor(self, credentials: Credentials) -> Caller | None:
        id = self.cookies.read_visitor(self._cookie(credentials, VISITOR_COOKIE))
        return None if id is None or self.settings.public_teaching is None else self.visitor(id)

    def widget_origin(self, credentials: Credentials) -> str | None:
        """Return the origin of a page with the widget that has sent a request; None for any other request."""
        origin = credentials.headers.get("origin", "")
        return origin if origin in self.widget_origins and not credentials.is_own_page else None

    def _of_token(self, credentials: Credentials, origin: str) -> Caller | None:
        id = self.cookies.read_token(credentials.headers.get(VISITOR_TOKEN, ""), origin)
        return None if id is None or self.settings.public_teaching is None else self.visitor(id)

    def visitor(self, id: str) -> Caller:
        """Return the caller that a visitor is. Raises AssertionError where there are no visitors."""
        teaching = self.settings.public_teaching
        assert teaching is not None, "visitors are made where public_teaching is set"
        scopes: tuple[callers.Scope, ...] = (
            ("predict", "feedback", "teach") if teaching == "on" else ("predict", "feedback")
        )
        return Caller(
            VISITOR + id,
            frozenset(scopes),
            user=VISITOR + id,
            is_reviewed=teaching == "review",
            is_visitor=True,
            kind="visitor",
        )

    @staticmethod
    def _cookie(credentials: Credentials, name: str) -> str:
        header = credentials.headers.get("cookie", "")
        return parse_cookies(header).get(name, "") if credentials.may_use_cookies and name in header else ""

    # addresses

    def find_address(self, credentials: Credentials) -> str:
        """Return the address of the client."""
        return self.proxies.find_client(credentials.address, credentials.headers.get("x-forwarded-for", ""))


def decode_name(value: str) -> str:
    """Return a name in a header: UTF-8, as proxies send it, or else Latin-1, as headers are decoded."""
    try:
        return value.strip().encode("latin-1").decode()
    except UnicodeError:
        return value.strip()


def caller_of(key: ApiKey) -> Caller:
    """Return the caller that a key makes. Without the scope impersonate, a key is a user of its own."""
    id = f"key:{key.name}"
    user = None if "impersonate" in key.scopes else id
    return Caller(id, key.scopes, user, key.models, kind="key", key_name=key.name)
