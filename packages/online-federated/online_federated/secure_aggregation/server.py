"""The computations of the server on the messages of one group. It keeps no state, so that any process can do it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from online_federated.secure_aggregation.client import add_pairwise_mask
from online_federated.secure_aggregation.errors import AggregationFailed
from online_federated.secure_aggregation.messages import AggregationGroup, PublicKeys, SealedShares, Unmasking
from online_federated.secure_aggregation.primitives import commit, expand, public_key
from online_federated.secure_aggregation.shamir import combine_shares


def route_shares(shared: Mapping[int, SealedShares], number: int) -> dict[int, bytes]:
    """Return the sealed shares for one member, by sender. Raises AggregationFailed if a sender left it out."""
    try:
        return {sender: message.sealed[number] for sender, message in shared.items() if sender != number}
    except KeyError:
        raise AggregationFailed(f"a member sealed no share for member {number}") from None


def recover_sum(
    group: AggregationGroup,
    keys: Mapping[int, PublicKeys],
    shared: Mapping[int, SealedShares],
    masked: Mapping[int, bytes],
    unmaskings: Mapping[int, Unmasking],
) -> NDArray[np.int64]:
    """Return the sum [L] of the values of the survivors: of the members whose masked values came.

    All by the number of a member. keys: of every member. shared: of those that sent shares. unmaskings: of those survivors
    that revealed shares. Raises AggregationFailed if they are too few, or if shares do not give the secrets.
    """
    for messages, what in ((masked, "masked values"), (unmaskings, "revealed shares")):
        if len(messages) < group.threshold:
            raise AggregationFailed(f"{what} of {len(messages)} members came, and {group.threshold} are needed")
    if not (unmaskings.keys() <= masked.keys() <= shared.keys() <= keys.keys()):
        raise AggregationFailed("a message is of a member that had dropped out before")
    total_L = np.zeros(group.layout.length, np.uint64)
    for packed in masked.values():
        total_L += group.layout.unpack(packed)
    for number in masked:
        total_L -= expand(recover_seed(group, number, shared, unmaskings), len(total_L))
    for number in shared.keys() - masked.keys():
        private = recover_masking_key(group, number, keys, unmaskings)
        for other in masked:  # each of them masked its values with the one that is gone
            add_pairwise_mask(total_L, group, private, keys[other].masking, other, number, times=-1)
    return group.layout.decode(group.layout.reduce(total_L))


def recover_seed(
    group: AggregationGroup, number: int, shared: Mapping[int, SealedShares], unmaskings: Mapping[int, Unmasking]
) -> bytes:
    """Return the seed of a survivor's own mask. Raises AggregationFailed."""
    shares = {holder: each.seeds[number] for holder, each in unmaskings.items() if number in each.seeds}
    seed = combine_shares(shares, group.threshold)
    if commit(seed) != shared[number].commitment:
        raise AggregationFailed(f"the shares of the seed of member {number} were tampered with")
    return seed


def recover_masking_key(
    group: AggregationGroup, number: int, keys: Mapping[int, PublicKeys], unmaskings: Mapping[int, Unmasking]
) -> bytes:
    """Return the masking key of a member that dropped out. Raises AggregationFailed."""
    shares = {holder: each.masking_keys[number] for holder, each in unmaskings.items() if number in each.masking_keys}
    private = combine_shares(shares, group.threshold)
    if public_key(private) != keys[number].masking:
        raise AggregationFailed(f"the shares of the masking key of member {number} were tampered with")
    return private
