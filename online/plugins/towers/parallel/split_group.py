"""The group of processes over which a tower is split: the default process group of torch.distributed.

FSDP2 and the pipeline find their group by torch's registry, which a process enters by its default group. So one process
can hold a part of one tower at a time.
"""

import fcntl
import gc
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from online.plugins.towers.parallel.peers import TIMEOUT_S, PeerLost

SIOCGIFADDR = 0x8915  # Linux: the address of a network interface
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"  # where gloo reads which interface others connect to


_taken = threading.Lock()  # of the default group of this process


class SplitGroup:
    """The ranks that hold a tower. Raises PeerLost where they do not meet in time, or if this process is in another group.

    host: the own address that the others connect to.
    """

    def __init__(
        self, store: Store, rank: int, size: int, host: str, device: torch.device, timeout_s: float = TIMEOUT_S
    ) -> None:
        take_group()
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        if device.type == "cuda":
            torch.cuda.set_device(device)
            # a lost rank is then an error, not the end of this process
            os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
        try:
            with reachable_at(host):
                dist.init_process_group(
                    backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=timeout_s)
                )
        except Exception as error:
            release_group()
            raise PeerLost.by(error) from None
        self.rank, self.size = rank, size
        self._meshes: list[DeviceMesh] = []
        self._is_left = False

    @property
    def handle(self) -> dist.ProcessGroup:
        """The process group of torch."""
        group = dist.group.WORLD
        assert group is not None
        return group

    def create_mesh(self, device: torch.device) -> DeviceMesh:
        """Return a mesh of all ranks."""
        mesh = init_device_mesh(device.type, (self.size,))
        self._meshes.append(mesh)
        return mesh

    def leave(self) -> None:
        """Close the connections: the other ranks notice at once, unless a stack of this group still exists here."""
        if self._is_left:
            return
        self._is_left = True
        for mesh in self._meshes:  # torch caches meshes, and gloo closes connections with the last reference
            mesh._pg_registry.clear()
        self._meshes.clear()
        if dist.is_initialized():
            dist.destroy_process_group()
        gc.collect()  # modules hold the group in cycles
        release_group()


def take_group() -> None:
    """Take the one group that this process can be in. Raises PeerLost if it is taken."""
    if not _taken.acquire(blocking=False):
        raise PeerLost("this process holds a part of another tower")


def release_group() -> None:
    """Let another tower use the process group."""
    if _taken.locked():
        _taken.release()


def is_group_free() -> bool:
    """Return whether no tower uses the process group."""
    return not _taken.locked()


@contextmanager
def reachable_at(host: str) -> Iterator[None]:
    """Have gloo listen at an address of this machine, where others reach it."""
    before, interface = os.environ.get(GLOO_INTERFACE), find_interface(host)
    if interface is not None:
        os.environ[GLOO_INTERFACE] = interface
    try:
        yield
    finally:
        if before is not None:
            os.environ[GLOO_INTERFACE] = before
        else:
            os.environ.pop(GLOO_INTERFACE, None)


def find_interface(host: str) -> str | None:
    """Return the network interface with this address; None if there is none, or on a system that does not say."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                found = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)[20:24]
            except OSError:  # it has no address, or this is not Linux
                continue
            if socket.inet_ntoa(found) == host:
                return name
    return None
