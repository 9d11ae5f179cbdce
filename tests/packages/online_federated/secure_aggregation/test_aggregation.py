"""A server learns the sum of the survivors whoever drops out and when, or nothing: with too few survivors, or tampering."""

from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest

from online_federated.secure_aggregation.errors import AggregationFailed
from online_federated.secure_aggregation.messages import (
    AggregationGroup,
    SealedShares,
    Unmasking,
    choose_threshold,
)
from tests.packages.online_federated.secure_aggregation.scene import LAYOUT, Aggregation

COUNT, THRESHOLD = 5, choose_threshold(5)
LAST_ROUNDS = range(4)  # after which a member is gone: advertise, share, mask, unmask


def test_without_drop_outs_the_sum_is_that_of_all() -> None:
    for count in (2, 3, 9):
        scene = Aggregation(count)
        everybody = scene.clients.keys()
        assert scene.run(everybody, everybody, everybody).tolist() == scene.sum_of(everybody).tolist()


def test_every_pattern_of_drop_outs_gives_the_sum_of_the_survivors_or_fails() -> None:
    """Each of eight members, of which six must stay, is gone after any of the four rounds; 165 patterns up to their order."""
    count, threshold = 8, choose_threshold(8)
    outcomes = {False: 0, True: 0}
    for pattern in combinations_with_replacement(LAST_ROUNDS, count):
        order = np.random.default_rng(sum(pattern)).permutation(count)
        last = {int(number) + 1: pattern[place] for place, number in enumerate(order)}
        sharing, masking, unmasking = ([n for n in last if last[n] >= round] for round in (1, 2, 3))
        scene = Aggregation(count)
        enough = len(unmasking) >= threshold
        outcomes[enough] += 1
        if enough:
            assert scene.run(sharing, masking, unmasking).tolist() == scene.sum_of(masking).tolist(), last
        else:
            with pytest.raises(AggregationFailed, match="are needed"):
                scene.run(sharing, masking, unmasking)
    assert outcomes == {True: 10, False: 155}


def test_masked_values_look_random_and_differ_for_the_same_values() -> None:
    first, second = Aggregation(3), Aggregation(3)
    for scene in (first, second):
        scene.share(scene.clients)
        scene.mask(scene.clients)
    assert all(first.values[n].tolist() == second.values[n].tolist() for n in first.values)
    assert all(first.masked[n] != second.masked[n] for n in first.masked)
    ones = np.unpackbits(np.frombuffer(b"".join(first.masked.values()), np.uint8))
    assert abs(ones.mean() - 0.5) < 6 * 0.5 / np.sqrt(ones.size)


def test_the_sum_of_masked_values_is_not_the_sum_before_the_own_masks_are_gone() -> None:
    scene = Aggregation(3)
    scene.share(scene.clients)
    scene.mask(scene.clients)
    total = np.zeros(LAYOUT.length, np.uint64)
    for packed in scene.masked.values():
        total += LAYOUT.unpack(packed)
    assert LAYOUT.decode(LAYOUT.reduce(total)).tolist() != scene.sum_of(scene.clients).tolist()


# what a client refuses


def masked_scene(count: int = COUNT, threshold: int = THRESHOLD) -> Aggregation:
    scene = Aggregation(count, threshold)
    scene.share(scene.clients)
    scene.mask(scene.clients)
    return scene


def test_a_client_never_reveals_both_secrets_of_a_member() -> None:
    scene = masked_scene()
    revealed = scene.clients[1].unmask([1, 2, 3, 4])
    assert revealed.masking_keys.keys() == {5} and revealed.seeds.keys() == {1, 2, 3, 4}
    with pytest.raises(AggregationFailed, match="revealed once"):
        scene.clients[1].unmask([1, 2, 3, 5])


@pytest.mark.parametrize("survivors", [[1, 2, 3], [2, 3, 4, 5], [1, 2, 3, 9], []], ids=str)
def test_a_client_reveals_nothing_for_survivors_that_cannot_be(survivors: list[int]) -> None:
    scene = masked_scene()
    with pytest.raises(AggregationFailed, match="survive"):
        scene.clients[1].unmask(survivors)


def test_a_client_reveals_nothing_before_it_has_masked_its_values() -> None:
    scene = Aggregation(COUNT, THRESHOLD)
    scene.share(scene.clients)
    with pytest.raises(AggregationFailed, match="after the values were masked"):
        scene.clients[1].unmask([1, 2, 3])


def test_a_client_masks_its_values_once_and_with_enough_others_only() -> None:
    scene = masked_scene()
    sealed = {number: scene.shared[number].sealed[1] for number in (2, 3)}
    with pytest.raises(AggregationFailed, match="masked once"):
        scene.clients[1].mask(sealed, scene.values[1])
    other = Aggregation(COUNT, THRESHOLD)
    other.share(other.clients)
    with pytest.raises(AggregationFailed, match="shares of 2 members came, and 4 are needed"):
        other.clients[1].mask({2: other.shared[2].sealed[1]}, other.values[1])


@pytest.mark.parametrize("threshold", [0, 3, 6])
def test_a_client_refuses_another_threshold_than_more_than_two_thirds(threshold: int) -> None:
    """A majority is not enough: with 3 of 5, two sets of survivors need one client only that answers both."""
    scene = Aggregation(COUNT, threshold)
    with pytest.raises(AggregationFailed, match="5 members need 4 or more"):
        scene.share([1])


def test_a_client_refuses_members_without_it_and_the_same_key_twice() -> None:
    scene = Aggregation(COUNT, THRESHOLD)
    with pytest.raises(AggregationFailed, match="not among them"):
        scene.clients[1].share(scene.group, 2, scene.keys)
    scene.keys[3] = scene.keys[2]
    with pytest.raises(AggregationFailed, match="the same public key"):
        scene.share([1])


def test_a_public_key_of_small_order_is_refused() -> None:
    scene = Aggregation(COUNT, THRESHOLD)
    scene.keys[3] = replace(scene.keys[3], sealing=bytes(32))
    with pytest.raises(AggregationFailed, match="public key is invalid"):
        scene.share([1])


# tampering


def flip(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def test_a_sealed_share_that_was_changed_is_noticed_by_its_receiver() -> None:
    scene = Aggregation(COUNT, THRESHOLD)
    scene.share(scene.clients)
    sealed = dict(scene.shared[2].sealed)
    scene.shared[2] = SealedShares({**sealed, 1: flip(sealed[1])}, scene.shared[2].commitment)
    with pytest.raises(AggregationFailed, match="changed on its way"):
        scene.mask([1])


def test_a_share_for_another_group_is_noticed() -> None:
    scene = Aggregation(COUNT, THRESHOLD)
    scene.share([1, 3, 4])
    scene.group = AggregationGroup(b"cohort 2", THRESHOLD, LAYOUT)
    scene.share([2])
    with pytest.raises(AggregationFailed, match="changed on its way"):
        scene.mask([1])


def test_a_share_for_another_member_is_noticed() -> None:
    scene = Aggregation(COUNT, THRESHOLD)
    scene.share(scene.clients)
    swapped = {number: scene.shared[number].sealed[3] for number in (2, 4, 5)}
    with pytest.raises(AggregationFailed, match="changed on its way"):
        scene.clients[1].mask(swapped, scene.values[1])


@pytest.mark.parametrize("dropped", [True, False], ids=["masking key", "seed"])
def test_a_revealed_share_that_was_changed_fails_the_aggregation(dropped: bool) -> None:
    scene = Aggregation(COUNT, THRESHOLD)
    scene.share(scene.clients)
    scene.mask([1, 2, 3, 4])
    scene.unmask([1, 2, 3, 4])
    revealed = scene.unmaskings[2]
    changed = (
        Unmasking({5: change_last(revealed.masking_keys[5])}, revealed.seeds)
        if dropped
        else Unmasking(revealed.masking_keys, {**revealed.seeds, 4: change_last(revealed.seeds[4])})
    )
    scene.unmaskings[2] = changed
    with pytest.raises(AggregationFailed, match=r"tampered with|do not fit together"):
        scene.recover()


def change_last(share: bytes) -> bytes:
    return share[:-1] + bytes([share[-1] ^ 1])


def test_masked_values_of_another_length_fail_the_aggregation() -> None:
    scene = masked_scene()
    scene.unmask(scene.clients)
    scene.masked[2] = scene.masked[2][:-1]
    with pytest.raises(AggregationFailed, match="bytes of values"):
        scene.recover()


def test_a_message_of_a_member_that_had_dropped_out_fails_the_aggregation() -> None:
    scene = Aggregation(COUNT, THRESHOLD)
    scene.share([1, 2, 3, 4])
    scene.mask([1, 2, 3, 4])
    scene.unmask([1, 2, 3, 4])
    scene.masked[5] = scene.masked[1]
    with pytest.raises(AggregationFailed, match="dropped out before"):
        scene.recover()


def test_the_threshold_is_more_than_two_thirds() -> None:
    assert [choose_threshold(count) for count in (2, 3, 5, 6, 100)] == [2, 3, 4, 5, 67]
