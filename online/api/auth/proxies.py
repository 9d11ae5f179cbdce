"""Proxies whose headers count: those that `trusted_proxies` names, by the address that a connection comes from.

connection of a trusted proxy --X-Forwarded-For----> the address of the client
                              --X-Forwarded-Proto--> the scheme that it used
                              --X-Forwarded-Prefix-> the prefix of the paths that it used
connection of anybody else ----any of these--------> nothing: who sends a header chooses what it says. A warning names the
                                                     address once, because it may be a proxy that the setting lacks
"""

import logging
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from online.telemetry import log_event

log = logging.getLogger("online.api")

REMEMBERED = 1_024
MAX_REPORTED = 16  # addresses of one process: anybody may send these headers, from any number of addresses
SCHEMES = ("http", "https")


class TrustedProxies:
    """Tells proxies from clients by their addresses, and finds the address of the client behind a chain of proxies."""

    def __init__(self, networks: Iterable[str]) -> None:
        """networks: addresses or networks, as in the setting."""
        self.networks = tuple(ip_network(each, strict=False) for each in networks)
        self.trusts = lru_cache(REMEMBERED)(self._trusts)
        self._reported = set[str]()

    def _trusts(self, address: str) -> bool:
        parsed = parse_address(address)
        return parsed is not None and any(parsed in network for network in self.networks)

    def report_unlisted(self, address: str) -> None:
        """Log once that a connection with forwarding headers comes from an address that is not listed, and the remedy.

        address: of the connection. The first `MAX_REPORTED` addresses are reported, each once.
        """
        parsed = parse_address(address)
        if parsed is None or self.trusts(address):
            return
        proxy = str(parsed)
        if proxy not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(proxy)
            remedy = f'if it is a proxy of yours, set trusted_proxies = ["{proxy}"]; otherwise nothing'
            log_event(log, "forwarding headers are ignored", logging.WARNING, address=proxy, remedy=remedy)

    def find_client(self, address: str, forwarded_for: str) -> str:
        """Return the address of the client: the last one that no trusted proxy has.

        address: of the connection; it counts also where the header holds something else than addresses.
        """
        if not self.networks or not self.trusts(address):
            return address
        for text in reversed(forwarded_for.split(",")):
            if (parsed := parse_address(text)) is None:
                return address
            if not self.trusts(str(parsed)):
                return str(parsed)
        return address

    def find_scheme(self, address: str, forwarded: str, scheme: str) -> str:
        """Return the scheme that the client used. scheme: of the connection."""
        given = forwarded.rpartition(",")[2].strip().lower()
        return given if given in SCHEMES and self.networks and self.trusts(address) else scheme


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address as proxies write it, with or without a port; None for anything else."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed
