"""Recognises requests from programs on this machine.

Its address must be a loopback address, its Host must name this machine (another name may have been pointed here by an
attacker), no page of another origin may have sent it, and no proxy may have forwarded it.
"""

from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

PROXY_HEADERS = frozenset({"forwarded", "via", "x-real-ip", "true-client-ip", "cf-connecting-ip", "fly-client-ip"})
VERDICTS = 1_024  # that are remembered


def is_proxy_header(name: str) -> bool:
    """Return whether a header (in lower case) shows that a proxy has forwarded the request."""
    return name in PROXY_HEADERS or name.startswith("x-forwarded-")


def is_forwarding_header(name: str) -> bool:
    """Return whether a header (in lower case) says for whom, and how, a proxy has forwarded the request."""
    return name == "forwarded" or name.startswith("x-forwarded-")


@lru_cache(VERDICTS)
def is_loopback(host: str) -> bool:
    """Return whether a host is `localhost` or a loopback address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(VERDICTS)
def names_this_machine(host: str, origin: str) -> bool:
    """Return whether a Host header names this machine, and the origin of the request, if it has one, is the same."""
    try:
        parts = urlsplit(f"//{host}")
        return is_loopback(parts.hostname or "") and (not origin or urlsplit(origin).netloc == parts.netloc)
    except ValueError:
        return False
