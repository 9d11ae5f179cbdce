"""Who may change what is served: whoever shows the admin key or, where none is set, whoever sits at this machine.

Without a key a request is trusted only where it comes from this machine, asks for it by its own name (a name that somebody
else made to point here is not one), and was not sent by a page of another origin.
"""

import hmac
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request

from online.errors import Forbidden, Unauthorized
from online.serving.api import parts_of

HEADER = "x-admin-key"


async def admin(request: Request) -> None:
    """Raises Unauthorized or Forbidden."""
    parts = await parts_of(request)
    given = request.headers.get(HEADER) or request.headers.get("authorization", "").removeprefix("Bearer ")
    allow(parts.settings.admin_key, given, at_this_machine(request))


def allow(key: str | None, given: str, here: bool) -> None:
    """key: to be shown, where one is set. here: whether the caller sits at this machine."""
    if key is not None:
        if not hmac.compare_digest(given.encode(), key.encode()):
            raise Unauthorized("this needs the admin key, as 'Authorization: Bearer KEY' or 'X-Admin-Key: KEY'")
    elif not here:
        raise Forbidden("this may be done from the machine itself alone; set admin_key to do it from elsewhere")


def at_this_machine(request: Request) -> bool:
    host = urlsplit(f"//{request.headers.get('host', '')}")
    origin = request.headers.get("origin")
    return (
        request.client is not None
        and is_loopback(request.client.host)
        and is_loopback(host.hostname or "")
        and (origin is None or urlsplit(origin).netloc == host.netloc)
        and "x-forwarded-for" not in request.headers  # a proxy on this machine speaks for somebody else
    )


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


Admin = Annotated[None, Depends(admin)]
