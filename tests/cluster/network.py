"""A network namespace for each replica, joined by a bridge, as hosts are by a switch. It needs root.

root namespace: bridge 10.213.N.1/24 --veth--> namespace 1: 10.213.N.11
                                     --veth--> namespace 2: 10.213.N.12
"""

import itertools
import os
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PREFIX = "onl"
NOBODY = "02:00:00:00:00:01"  # a link-layer address that no host has
FIRST_HOST = 10
NAMES = re.compile(rf"{PREFIX}(\d+)x")
NUMBERS = itertools.count()  # of the networks of this process


class NetworkError(RuntimeError):
    """The network cannot be made or changed here."""


@dataclass(frozen=True, slots=True)
class Host:
    """A namespace with one address."""

    number: int
    namespace: str
    link: str
    address: str

    def command(self, *arguments: str) -> list[str]:
        """Return a command line that runs in this host. `ip` replaces itself by it, so it has the process id."""
        return ["ip", "netns", "exec", self.namespace, *arguments]


class Network:
    """The hosts and the bridge between them. `close` removes everything. Raises NetworkError without the rights."""

    def __init__(self) -> None:
        remove_leftovers()
        # names of links have at most 15 characters
        self.name, self.hosts = f"{PREFIX}{os.getpid()}x{next(NUMBERS) % 10}", dict[int, Host]()
        self.bridge = f"{self.name}b"
        self.subnet = find_free_subnet()
        self.address = f"{self.subnet}.1"
        try:
            ip("link", "add", self.bridge, "type", "bridge")
            ip("addr", "add", f"{self.address}/24", "dev", self.bridge)
            ip("link", "set", self.bridge, "up")
            self.add_host(0)
        except NetworkError:
            self.close()
            raise
        self.remove_host(0)

    def add_host(self, number: int) -> Host:
        """Create a host. number: from 0 to 240, not taken yet."""
        address = f"{self.subnet}.{FIRST_HOST + number}"
        host = self.hosts[number] = Host(number, f"{self.name}-{number}", f"{self.name}v{number}", address)
        ip("netns", "add", host.namespace)
        ip("link", "add", host.link, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
        ip("link", "set", host.link, "master", self.bridge, "up")
        ip("-n", host.namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        for link in ("eth0", "lo"):
            ip("-n", host.namespace, "link", "set", link, "up")
        return host

    def remove_host(self, number: int) -> None:
        """Delete a host with its link."""
        host = self.hosts.pop(number)
        for words in (("link", "del", host.link), ("netns", "del", host.namespace)):
            with suppress(NetworkError):
                ip(*words)

    def disconnect(self, host: Host) -> None:
        """Cut a host off from all others: packets vanish, and connections stay open at both ends."""
        ip("link", "set", host.link, "down")

    def connect(self, host: Host) -> None:
        """End `disconnect`."""
        ip("link", "set", host.link, "up")

    def cut(self, one: Host, other: Host) -> None:
        """Let two hosts not reach each other: what they send goes to a link-layer address that nobody has."""
        for host, away in ((one, other), (other, one)):
            neighbour = ("neigh", "replace", away.address, "lladdr", NOBODY, "nud", "permanent", "dev", "eth0")
            ip("-n", host.namespace, *neighbour)

    def join(self, one: Host, other: Host) -> None:
        """End `cut`."""
        for host, away in ((one, other), (other, one)):
            with suppress(NetworkError):  # they were not cut
                ip("-n", host.namespace, "neigh", "del", away.address, "dev", "eth0")

    def close(self) -> None:
        """Remove everything. Programs that still run in a namespace keep it, without its link."""
        for number in [*self.hosts]:
            self.remove_host(number)
        with suppress(NetworkError):
            ip("link", "del", self.bridge)


def ip(*words: str) -> str:
    """Run `ip`; return what it prints. Raises NetworkError."""
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20, check=False)
    except OSError as error:
        raise NetworkError(f"`ip` cannot be run: {error.strerror}; install iproute2") from None
    if done.returncode:
        raise NetworkError(f"`ip {' '.join(words)}` failed: {done.stderr.strip()}; network namespaces need root")
    return done.stdout


def find_free_subnet() -> str:
    """Return the first three parts of a network that no link of this machine has."""
    taken = ip("-o", "addr")
    start = os.getpid() % 250
    for number in [*range(start, 250), *range(start)]:
        if f" 10.213.{number}." not in taken:
            return f"10.213.{number}"
    raise NetworkError("all networks from 10.213.0.0 to 10.213.249.0 are in use; end other clusters")


def remove_leftovers() -> None:
    """Remove the networks of processes that were killed."""
    for line in ip("netns", "list").splitlines():
        if belongs_to_the_dead(name := line.split()[0]):
            with suppress(NetworkError):
                ip("netns", "del", name)
    for line in ip("-o", "link").splitlines():
        if belongs_to_the_dead(name := line.split(": ")[1].split("@")[0]):
            with suppress(NetworkError):
                ip("link", "del", name)


def belongs_to_the_dead(name: str) -> bool:
    """Return whether a namespace or a link is of a network whose process has ended."""
    found = NAMES.match(name)
    return found is not None and not Path(f"/proc/{found[1]}").exists()
