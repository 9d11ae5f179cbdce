"""The group of processes over which a tower is split: the default process group of torch.distributed.

FSDP2 and the pipeline find their group by torch's registry, which a process enters by its default group. So one process
can hold a part of one tower at a time.
"""

import fcntl
import gc
import os
import socket
import struct
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store

from online.models.tower.parallel.peers import TIMEOUT_S, PeerLost

SIOCGIFADDR = 0x8915  # Linux: the address of a network interface
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"  # where gloo reads which interface others connect to


class SplitGroup:
    """The ranks that hold a tower. Raises PeerLost where they do not meet in time, or this process is in such a group.

    host: the own address that the others connect to.
    """

    def __init__(
        self, store: Store, rank: int, size: int, host: str, device: torch.device, timeout_s: float = TIMEOUT_S
    ) -> None:
        if dist.is_initialized():
            raise PeerLost("this process holds a part of another tower")
        if (interface := find_interface(host)) is not None:
            os.environ[GLOO_INTERFACE] = interface
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        if device.type == "cuda":
            torch.cuda.set_device(device)
        try:
            dist.init_process_group(
                backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=timeout_s)
            )
        except RuntimeError as error:
            raise PeerLost.by(error) from None
        self.rank, self.size = rank, size

    @property
    def handle(self) -> dist.ProcessGroup:
        group = dist.group.WORLD
        assert group is not None
        return group

    def leave(self) -> None:
        """Close the connections: the other ranks notice at once."""
        if dist.is_initialized():
            dist.destroy_process_group()
        gc.collect()  # modules hold the group in cycles


def find_interface(host: str) -> str | None:
    """The network interface with this address; None if there is none, or on a system that does not say."""
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
