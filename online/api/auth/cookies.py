"""The two cookies of the page: who a visitor is, and which key an operator signed in with.

    online_visitor   <visitor id>.<signature>                  a year; made when the page is loaded
    online_session   <key id>.<expires, unix s>.<signature>    12 hours; made when somebody signs in with a key
                                                 signature: <id of the signing key>.<digits>

No script can read them (HttpOnly), and no other site can send them (SameSite). They hold no secret: the signature of a
session covers the digest of its key, so a session ends when its key is revoked, rotated out or expires.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from online.settings import Settings
from online.state.signing_keys import SigningKeys

VISITOR_COOKIE, SESSION_COOKIE = "online_visitor", "online_session"
VISITOR_S, SESSION_S = 365 * 24 * 3600, 12 * 3600
VISITOR_BYTES = 12
PURPOSE = "cookies"  # of the keys that sign

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Session:
    """A session whose signature is yet to be checked with the digest of its key. expires_at: unix time in seconds."""

    key_id: str
    expires_at: int
    signature: str


class Cookies:
    """Makes and checks the cookies of one service."""

    def __init__(self, settings: Settings, keys: SigningKeys, clock: Clock = time.time) -> None:
        """clock: unix time in seconds."""
        self.settings, self.keys, self.clock = settings, keys, clock

    def _sign(self, text: str) -> str:
        return self.keys.sign(PURPOSE, text.encode())

    def _is_signed(self, text: str, signature: str) -> bool:
        return self.keys.check(PURPOSE, text.encode(), signature)

    # visitors

    def new_visitor(self) -> str:
        """Return a new random id of a visitor."""
        return secrets.token_hex(VISITOR_BYTES)

    def read_visitor(self, value: str) -> str | None:
        """Return the id of the visitor that a cookie names; None if the cookie is not one of ours."""
        id, _, signature = value.partition(".")
        return id if id and self._is_signed(f"visitor {id}", signature) else None

    def set_visitor(self, request: Request, response: Response, id: str) -> None:
        """Set the signed cookie that names a visitor."""
        value = f"{id}.{self._sign(f'visitor {id}')}"
        self._set(request, response, VISITOR_COOKIE, value, VISITOR_S, "lax")

    # visitors of the widget, on pages of other origins

    def make_token(self, id: str, origin: str) -> str:
        """Return what stands for a visitor in the widget on the pages of an origin. It is no cookie, and no cookie is one."""
        return f"{id}.{self._sign(f'widget {origin} {id}')}"

    def read_token(self, value: str, origin: str) -> str | None:
        """Return the id of the visitor that a token names; None if it is not one of ours for this origin."""
        id, _, signature = value.partition(".")
        return id if id and self._is_signed(f"widget {origin} {id}", signature) else None

    # sessions of operators

    def read_session(self, value: str) -> Session | None:
        """Return the session in a cookie, if it has not expired; None for anything else."""
        parts = value.split(".", 2)
        if len(parts) != 3 or not parts[1].isdecimal() or len(parts[1]) > 12 or int(parts[1]) <= self.clock():
            return None
        return Session(parts[0], int(parts[1]), parts[2])

    def is_valid(self, session: Session, key_digest: str) -> bool:
        """Return whether a session is signed for this key, which a rotation changes."""
        return self._is_signed(f"session {session.key_id} {session.expires_at} {key_digest}", session.signature)

    def set_session(self, request: Request, response: Response, key_id: str, key_digest: str) -> None:
        """Sign a browser in: set the session cookie of a key, valid for 12 hours."""
        expires_at = int(self.clock()) + SESSION_S
        signature = self._sign(f"session {key_id} {expires_at} {key_digest}")
        self._set(request, response, SESSION_COOKIE, f"{key_id}.{expires_at}.{signature}", SESSION_S, "strict")

    def clear_session(self, request: Request, response: Response) -> None:
        """Sign a browser out: let its session cookie expire."""
        self._set(request, response, SESSION_COOKIE, "", 0, "strict")

    def _set(
        self,
        request: Request,
        response: Response,
        name: str,
        value: str,
        max_age_s: int,
        same_site: Literal["lax", "strict"],
    ) -> None:
        public = self.settings.public_url or ""
        response.set_cookie(
            name,
            value,
            max_age=max_age_s,
            path=request.scope.get("root_path") or "/",
            secure=request.url.scheme == "https" or public.startswith("https:"),
            httponly=True,
            samesite=same_site,
        )


def parse_cookies(header: str) -> dict[str, str]:
    """Return the cookies in a header, by name; nothing of a malformed header."""
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(header).items()}
    except CookieError:
        return {}
