"""Groups of clients and an honest server, with every message in reach of a test."""

import os
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from online_federated.secure_aggregation.client import AggregationClient
from online_federated.secure_aggregation.layout import IntegerSegment, SumLayout
from online_federated.secure_aggregation.messages import (
    AggregationGroup,
    SealedShares,
    Unmasking,
    choose_threshold,
)
from online_federated.secure_aggregation.server import recover_sum, route_shares

LAYOUT = SumLayout((IntegerSegment(7, 12), IntegerSegment(40, 33)))


class Aggregation:
    """One aggregation. values: of each member, by number; the messages of each round, likewise."""

    def __init__(self, count: int, threshold: int | None = None, layout: SumLayout = LAYOUT, seed: int = 0) -> None:
        self.group = AggregationGroup(b"cohort 1", choose_threshold(count) if threshold is None else threshold, layout)
        self.clients = {number: AggregationClient(os.urandom) for number in range(1, count + 1)}
        random = np.random.default_rng(seed)
        largest = np.repeat(
            [max(2**each.bits // (2 * count) - 1, 0) for each in layout.segments], [s.length for s in layout.segments]
        )
        self.values = {number: random.integers(-largest, largest + 1) for number in self.clients}
        self.keys = {number: client.advertise() for number, client in self.clients.items()}
        self.shared = dict[int, SealedShares]()
        self.masked = dict[int, bytes]()
        self.unmaskings = dict[int, Unmasking]()

    def share(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.shared[number] = self.clients[number].share(self.group, number, self.keys)

    def mask(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            sealed = route_shares(self.shared, number)
            self.masked[number] = self.clients[number].mask(sealed, self.values[number])

    def unmask(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.unmaskings[number] = self.clients[number].unmask(self.masked.keys())

    def recover(self) -> NDArray[np.int64]:
        return recover_sum(self.group, self.keys, self.shared, self.masked, self.unmaskings)

    def run(self, sharing: Iterable[int], masking: Iterable[int], unmasking: Iterable[int]) -> NDArray[np.int64]:
        self.share(sharing)
        self.mask(masking)
        self.unmask(unmasking)
        return self.recover()

    def sum_of(self, numbers: Iterable[int]) -> NDArray[np.int64]:
        total: NDArray[np.int64] = np.sum([self.values[number] for number in numbers], axis=0)
        return total
