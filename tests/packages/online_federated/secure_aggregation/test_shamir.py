"""Secrets are shared so that any threshold of shares gives them back, and fewer, or changed ones, do not."""

import os
from itertools import combinations

import pytest

from online_federated.secure_aggregation.errors import AggregationFailed
from online_federated.secure_aggregation.shamir import (
    PRIME,
    combine_shares,
    evaluate,
    interpolate_at_zero,
    split_secret,
)

SECRETS = [bytes(32), b"\xff" * 32, bytes(range(32))]


@pytest.mark.parametrize("secret", SECRETS, ids=["zeros", "ones", "bytes"])
def test_any_shares_of_the_threshold_give_the_secret_back(secret: bytes) -> None:
    shares = split_secret(secret, 3, range(1, 6), os.urandom)
    for chosen in combinations(shares, 3):
        assert combine_shares({holder: shares[holder] for holder in chosen}, 3) == secret
    assert combine_shares(shares, 3) == secret


def test_every_secret_is_possible_with_one_share_too_few() -> None:
    shares = split_secret(SECRETS[2], 3, range(1, 6), os.urandom)
    known = {holder: int.from_bytes(shares[holder]) for holder in (1, 2)}
    for secret in (0, 1, 2**256 - 1):  # a polynomial through both shares has any value at zero
        third = next(
            value for value in [solve_third(known, secret)] if interpolate_at_zero({**known, 3: value}) == secret
        )
        assert 0 <= third < PRIME


def solve_third(known: dict[int, int], secret: int) -> int:
    """The share of holder 3 with which the secret is this one: f(0) is linear in it."""
    at_zero, at_one = (interpolate_at_zero({**known, 3: value}) for value in (0, 1))
    return (secret - at_zero) * pow(at_one - at_zero, -1, PRIME) % PRIME


def test_too_few_shares_are_refused() -> None:
    shares = split_secret(SECRETS[2], 3, range(1, 6), os.urandom)
    with pytest.raises(AggregationFailed, match="2 shares of a secret came, and 3 are needed"):
        combine_shares({holder: shares[holder] for holder in (1, 4)}, 3)


@pytest.mark.parametrize("share", [b"", bytes(32), b"\xff" * 33], ids=["empty", "short", "beyond the field"])
def test_a_share_that_is_no_number_of_the_field_is_refused(share: bytes) -> None:
    shares = split_secret(SECRETS[2], 2, range(1, 4), os.urandom)
    with pytest.raises(AggregationFailed, match="no number of the field"):
        combine_shares({**shares, 1: share}, 2)


def test_a_polynomial_has_the_secret_at_zero() -> None:
    """Shamir's example (1979 notation): f(x) = 1234 + 166 x + 94 x^2."""
    points = {x: evaluate([1234, 166, 94], x) for x in (2, 4, 5)}
    assert points == {2: 1942, 4: 3402, 5: 4414}
    assert interpolate_at_zero(points) == 1234


def test_the_modulus_is_a_prime_above_every_secret() -> None:
    assert PRIME > 2**256
    assert all(pow(base, PRIME - 1, PRIME) == 1 and not composite_witness(base) for base in range(2, 60))


def composite_witness(base: int) -> bool:
    """Whether a base shows that the modulus is composite (Miller and Rabin)."""
    odd, halvings = PRIME - 1, 0
    while odd % 2 == 0:
        odd, halvings = odd // 2, halvings + 1
    value = pow(base, odd, PRIME)
    if value in (1, PRIME - 1):
        return False
    return not any((value := value * value % PRIME) == PRIME - 1 for _ in range(halvings - 1))
