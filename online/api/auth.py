"""Administration: who may change which version is served.

Where an admin key is set, a request must show it. Without one, a request is trusted only if it
comes from this machine: its address is a loopback address, its Host names this machine (another
name may have been pointed here by an attacker), and no page of another origin sent it.
"""

import hmac
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request

from online.api.dependencies import RuntimeDep
from online.errors import Forbidden, Unauthorized
from online.settings import reveal

KEY_HEADER = "x-admin-key"
PROXY_HEADERS = frozenset({"forwarded", "via", "x-real-ip", "true-client-ip", "cf-connecting-ip", "fly-client-ip"})


async def check_admin(request: Request, runtime: RuntimeDep) -> None:
    """Raises Unauthorized or Forbidden."""
    key = request.headers.get(KEY_HEADER) or request.headers.get("authorization", "").removeprefix("Bearer ")
    check_key(reveal(runtime.settings.admin_key), key, is_local(request))


def check_key(admin_key: str | None, given: str, from_this_machine: bool) -> None:
    """Raises Unauthorized without the admin key, or Forbidden where none is set and the caller is remote."""
    if admin_key is not None:
        if not hmac.compare_digest(given.encode(), admin_key.encode()):
            raise Unauthorized("this request needs the admin key, as 'Authorization: Bearer KEY' or 'X-Admin-Key: KEY'")
    elif not from_this_machine:
        raise Forbidden("without an admin key this request is accepted from this machine only; set admin_key")


def is_local(request: Request) -> bool:
    host = urlsplit(f"//{request.headers.get('host', '')}")
    origin = request.headers.get("origin")
    return (
        request.client is not None
        and is_loopback(request.client.host)
        and is_loopback(host.hostname or "")
        and (origin is None or urlsplit(origin).netloc == host.netloc)
        and not any(map(is_proxy_header, request.headers))  # a proxy on this machine forwards requests of others
    )


def is_proxy_header(name: str) -> bool:
    """Whether a header (in lower case) shows that a proxy has forwarded the request."""
    return name in PROXY_HEADERS or name.startswith("x-forwarded-")


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


AdminOnly = Annotated[None, Depends(check_admin)]
