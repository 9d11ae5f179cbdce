"""The address at which the other replicas reach this one."""

import socket
from ipaddress import ip_address

from online.plugins.cluster.settings import ClusterSettings
from online.settings import Settings


def find_replica_url(settings: Settings, port: int | None = None) -> str:
    """Return the setting `replica_url`, or the default. port: the port that the service listens on, where the setting is 0."""
    chosen = settings.part(ClusterSettings).replica_url
    return chosen.rstrip("/") if chosen else default_replica_url(settings, port)


def default_replica_url(settings: Settings, port: int | None = None) -> str:
    """Return the URL of the host and port that the service listens on; its host is this machine's name if it listens on all addresses."""
    host = socket.gethostname() if is_every_address(settings.host) else settings.host
    scheme = "http" if settings.tls_certificate is None else "https"
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}:{settings.port if port is None else port}"


def is_every_address(host: str) -> bool:
    """Return whether a service that listens on this host is reached by every address of its machine."""
    try:
        return not host or ip_address(host).is_unspecified
    except ValueError:
        return False
