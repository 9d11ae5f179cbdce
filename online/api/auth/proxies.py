"""Proxies whose headers count: those that `trusted_proxies` names, by the address that a connection comes from.

connection of a trusted proxy --X-Forwarded-For----> the address of the client
                              --X-Forwarded-Proto--> the scheme that it used
                              --X-Forwarded-Prefix-> the prefix of the paths that it used
connection of anybody else ----any of these--------> nothing: who sends a header chooses what it says
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

REMEMBERED = 1_024
SCHEMES = ("http", "https")


class TrustedProxies:
    """Tells proxies from clients by their addresses, and finds the address of the client behind a chain of proxies."""

    def __init__(self, networks: Iterable[str]) -> None:
        """networks: addresses or networks, as in the setting."""
        self.networks = tuple(ip_network(each, strict=False) for each in networks)
        self.trusts = lru_cache(REMEMBERED)(self._trusts)

    def _trusts(self, address: str) -> bool:
        parsed = parse_address(address)
        return parsed is not None and any(parsed in network for network in self.networks)

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
