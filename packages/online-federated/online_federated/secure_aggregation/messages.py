"""The messages of clients in each round, and the parameters that they agree on."""

from collections.abc import Mapping
from dataclasses import dataclass

from online_federated.secure_aggregation.layout import SumLayout

KEY_BYTES = 32  # of private and public keys, seeds and commitments


@dataclass(frozen=True, slots=True)
class AggregationGroup:
    """The parameters of one group. context: names it, so that no message of another one counts.

    threshold: shares that recover a secret, which is also the least number of survivors.
    """

    context: bytes
    threshold: int
    layout: SumLayout


def choose_threshold(member_count: int) -> int:
    """More than two thirds of the members.

    A server that names other survivors to some clients than to others gets the shares of a client's key and of its own mask
    only if a third of the members, or more, tell it all they know.
    """
    return 2 * member_count // 3 + 1


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """Of one client, X25519: for sealing shares, and for pairwise masks."""

    sealing: bytes
    masking: bytes


@dataclass(frozen=True, slots=True)
class SealedShares:
    """Of one client. sealed: for each other member, by number. commitment: to the seed of its own mask."""

    sealed: Mapping[int, bytes]
    commitment: bytes


@dataclass(frozen=True, slots=True)
class Unmasking:
    """The shares that one client reveals, by the number of the client whose secret they are of.

    masking_keys: of those whose values did not come. seeds: of those whose values came.
    """

    masking_keys: Mapping[int, bytes]
    seeds: Mapping[int, bytes]
