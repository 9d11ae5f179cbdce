"""Vectors of secure aggregation: what four members send whose random bytes are known, for clients in other languages.

    python -m tests.packages.online_federated.aggregation_vectors > tests/packages/online_federated/aggregation_vectors.json

Member 4 is gone before it masks its values. Bytes are hexadecimal.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

import numpy as np

from online_federated.secure_aggregation.client import AggregationClient
from online_federated.secure_aggregation.layout import IntegerSegment, SumLayout
from online_federated.secure_aggregation.messages import KEY_BYTES, AggregationGroup, choose_threshold
from online_federated.secure_aggregation.primitives import agree, expand
from online_federated.secure_aggregation.server import recover_sum, route_shares

FILE = Path(__file__).with_name("aggregation_vectors.json")
CONTEXT, COUNT, SURVIVORS = b"online cohort 0123", 4, [1, 2, 3]
SEGMENTS = [(5, 12), (3, 33), (2, 1), (4, 62), (1, 32), (3, 0), (0, 8)]
EXPANDED = 1_000  # numbers


class Member(TypedDict):
    """random: the bytes that it draws, in their order: two private keys, a seed, and coefficients."""

    random: str
    values: list[int]
    sealing: str
    masking: str
    sealed: dict[str, str]
    commitment: str
    packed: str | None
    masking_keys: dict[str, str]
    seeds: dict[str, str]


class Vectors(TypedDict):
    context: str
    threshold: int
    segments: list[list[int]]
    survivors: list[int]
    members: dict[str, Member]
    sum: list[int]
    agreed: str  # by the members 1 and 2, of their masking keys, for the context as purpose
    expanded_sha256: str  # of the seed of member 1


class KnownBytes:
    """Bytes that look random and are the same each time; `drawn` are those so far."""

    def __init__(self, name: str) -> None:
        self.name, self.drawn = name, b""

    def __call__(self, count: int) -> bytes:
        drawn = hashlib.shake_256(f"{self.name} {len(self.drawn)}".encode()).digest(count)
        self.drawn += drawn
        return drawn


def create_vectors() -> Vectors:
    layout = SumLayout(tuple(IntegerSegment(*each) for each in SEGMENTS))
    group, members = AggregationGroup(CONTEXT, choose_threshold(COUNT), layout), range(1, COUNT + 1)
    sources = {number: KnownBytes(f"member {number}") for number in members}
    clients = {number: AggregationClient(sources[number]) for number in members}
    keys = {number: client.advertise() for number, client in clients.items()}
    shared = {number: client.share(group, number, keys) for number, client in clients.items()}
    values = {number: draw_values(number) for number in members}
    masked = {n: clients[n].mask(route_shares(shared, n), np.array(values[n])) for n in SURVIVORS}
    revealed = {number: clients[number].unmask(SURVIVORS) for number in SURVIVORS}
    first, second = sources[1].drawn, sources[2].drawn
    seed = first[2 * KEY_BYTES : 3 * KEY_BYTES]
    agreed = agree(first[KEY_BYTES : 2 * KEY_BYTES], keys[2].masking, CONTEXT)
    assert agreed == agree(second[KEY_BYTES : 2 * KEY_BYTES], keys[1].masking, CONTEXT)
    return Vectors(
        context=CONTEXT.hex(),
        threshold=group.threshold,
        segments=[[*each] for each in SEGMENTS],
        survivors=SURVIVORS,
        members={
            str(number): Member(
                random=sources[number].drawn.hex(),
                values=values[number],
                sealing=keys[number].sealing.hex(),
                masking=keys[number].masking.hex(),
                sealed=to_hex(shared[number].sealed),
                commitment=shared[number].commitment.hex(),
                packed=masked[number].hex() if number in masked else None,
                masking_keys=to_hex(revealed[number].masking_keys) if number in revealed else {},
                seeds=to_hex(revealed[number].seeds) if number in revealed else {},
            )
            for number in members
        },
        sum=recover_sum(group, keys, shared, masked, revealed).tolist(),
        agreed=agreed.hex(),
        expanded_sha256=hashlib.sha256(expand(seed, EXPANDED).tobytes()).hexdigest(),
    )


def draw_values(number: int) -> list[int]:
    """Values up to 2^53, of which every program of JavaScript has integers, and whose sum fits."""
    random = np.random.default_rng(number)
    largest = [0 if bits < 2 else min(2 ** (bits - 1) // COUNT - 1, 2**53 - 1) for _, bits in SEGMENTS]
    bounds = np.repeat(largest, [length for length, _ in SEGMENTS])
    return [int(value) for value in random.integers(-bounds, bounds + 1)]


def to_hex(shares: Mapping[int, bytes]) -> dict[str, str]:
    return {str(number): share.hex() for number, share in sorted(shares.items())}


def write_vectors() -> str:
    return json.dumps(create_vectors(), indent=1) + "\n"


if __name__ == "__main__":
    print(write_vectors(), end="")
