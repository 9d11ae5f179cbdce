"""One client of an aggregation. Its methods are called once each, in the order of the rounds."""

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from online_federated.secure_aggregation.errors import AggregationFailed
from online_federated.secure_aggregation.messages import (
    KEY_BYTES,
    AggregationGroup,
    PublicKeys,
    SealedShares,
    Unmasking,
    choose_threshold,
)
from online_federated.secure_aggregation.primitives import agree, commit, expand, public_key, seal, unseal
from online_federated.secure_aggregation.shamir import SHARE_BYTES, RandomBytes, split_secret


class AggregationClient:
    """The secrets of one client, for one aggregation. Members are numbered from 1."""

    def __init__(self, random: RandomBytes) -> None:
        """random: a cryptographic source, such as os.urandom."""
        self.random = random
        self._sealing_key, self._masking_key, self._seed = (random(KEY_BYTES) for _ in range(3))
        self._keys: Mapping[int, PublicKeys] = {}
        self._shares: dict[int, tuple[bytes, bytes]] = {}  # of each sender's masking key and seed, for this client
        self._is_masked = self._is_revealed = False

    def advertise(self) -> PublicKeys:
        """Return the public keys, the first message."""
        return PublicKeys(public_key(self._sealing_key), public_key(self._masking_key))

    def share(self, group: AggregationGroup, number: int, keys: Mapping[int, PublicKeys]) -> SealedShares:
        """Split the secrets among the members. number: of this client. keys: of all members, by number.

        Raises AggregationFailed if the members cannot be those of such a group.
        """
        if self._keys:
            raise AggregationFailed("the secrets were shared before")
        check_members(group, number, keys, self.advertise())
        self.group, self.number, self._keys = group, number, dict(keys)
        holders, threshold = range(1, len(keys) + 1), group.threshold
        masking = split_secret(self._masking_key, threshold, holders, self.random)
        seeds = split_secret(self._seed, threshold, holders, self.random)
        self._shares[number] = masking[number], seeds[number]
        sealed = {
            other: seal(self._sealing_secret(other, number), masking[other] + seeds[other], group.context)
            for other in keys
            if other != number
        }
        return SealedShares(sealed, commit(self._seed))

    def mask(self, sealed: Mapping[int, bytes], values_L: NDArray[np.int64]) -> bytes:
        """Return the masked values, packed. sealed: the shares of the others that have sent some, by their number.

        Raises AggregationFailed if too few have, or if shares were changed.
        """
        if self._is_masked or not self._keys:
            raise AggregationFailed("values are masked once, after the secrets were shared")
        if not sealed.keys() <= self._keys.keys() - {self.number} or 1 + len(sealed) < self.group.threshold:
            raise AggregationFailed(
                f"shares of {1 + len(sealed)} members came, and {self.group.threshold} are needed; or some of no member"
            )
        for other, data in sealed.items():
            shares = unseal(self._sealing_secret(number=other, other=self.number), data, self.group.context)
            if len(shares) != 2 * SHARE_BYTES:
                raise AggregationFailed("a sealed share has another length")
            self._shares[other] = shares[:SHARE_BYTES], shares[SHARE_BYTES:]
        layout = self.group.layout
        total_L = layout.encode(values_L) + expand(self._seed, layout.length)
        for other in sealed:
            add_pairwise_mask(total_L, self.group, self._masking_key, self._keys[other].masking, self.number, other)
        self._is_masked = True
        return layout.pack(layout.reduce(total_L))

    def unmask(self, survivors: Collection[int]) -> Unmasking:
        """Reveal the shares that recover the sum of the survivors. Of no member both secrets are revealed.

        Raises AggregationFailed if too few survive, or if it was asked before.
        """
        alive = {*survivors}
        if self._is_revealed or not self._is_masked:
            raise AggregationFailed("shares are revealed once, after the values were masked")
        if not alive <= self._shares.keys() or self.number not in alive or len(alive) < self.group.threshold:
            raise AggregationFailed(
                f"{len(alive)} members survive, and {self.group.threshold} are needed, this one among them, of those that shared"
            )
        self._is_revealed = True
        gone = self._shares.keys() - alive
        return Unmasking({n: self._shares[n][0] for n in gone}, {n: self._shares[n][1] for n in alive})

    def _sealing_secret(self, other: int, number: int) -> bytes:
        """Return the key with which the member `number` seals its shares for `other`; one of the two is this client."""
        partner = other if number == self.number else number
        purpose = b"online share %d to %d " % (number, other) + self.group.context
        return agree(self._sealing_key, self._keys[partner].sealing, purpose)


def check_members(group: AggregationGroup, number: int, keys: Mapping[int, PublicKeys], own: PublicKeys) -> None:
    """Raise AggregationFailed."""
    if {*keys} != {*range(1, len(keys) + 1)} or keys.get(number) != own:
        raise AggregationFailed("the members are not numbered from 1, or this client is not among them")
    least = choose_threshold(len(keys))
    if not least <= group.threshold <= len(keys):
        raise AggregationFailed(f"a threshold of {group.threshold}, where {len(keys)} members need {least} or more")
    public = [key for each in keys.values() for key in (each.sealing, each.masking)]
    if len({*public}) != len(public):
        raise AggregationFailed("two members have the same public key")


def add_pairwise_mask(
    total_L: NDArray[np.uint64],
    group: AggregationGroup,
    private: bytes,
    public: bytes,
    number: int,
    other: int,
    times: int = 1,
) -> None:
    """Add to numbers modulo 2^64 the mask that the member `number` shares with another (times=-1: subtract it).

    private: masking key of one of the two; public: of the other. The lower number adds the mask, the higher subtracts it.
    """
    pair = b"online mask %d and %d " % (min(number, other), max(number, other)) + group.context
    mask_L = expand(agree(private, public, pair), len(total_L))
    (np.add if (number < other) == (times > 0) else np.subtract)(total_L, mask_L, out=total_L)
