"""Shamir's secret sharing (1979): any `threshold` shares of a secret give it back, fewer say nothing about it.

f(x) = secret + a_1 x + ... + a_(t-1) x^(t-1)  modulo a prime      share of holder x: f(x), x > 0      secret: f(0)
"""

from collections.abc import Callable, Mapping

from online_federated.secure_aggregation.errors import AggregationFailed

SECRET_BYTES = 32
SHARE_BYTES = 33
PRIME = 2**256 + 297  # the smallest prime above every secret

RandomBytes = Callable[[int], bytes]


def split_secret(secret: bytes, threshold: int, holders: range, random: RandomBytes) -> dict[int, bytes]:
    """Return the share of each holder, by its number. holders: numbers above 0. random: returns so many random bytes."""
    assert len(secret) == SECRET_BYTES and 0 < threshold <= len(holders) and holders.start > 0
    coefficients = [int.from_bytes(secret), *(draw_below_prime(random) for _ in range(threshold - 1))]
    return {holder: evaluate(coefficients, holder).to_bytes(SHARE_BYTES) for holder in holders}


def combine_shares(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """Return the secret. Raises AggregationFailed for too few shares, and for some whose secret cannot be one."""
    if len(shares) < threshold:
        raise AggregationFailed(f"{len(shares)} shares of a secret came, and {threshold} are needed")
    chosen = dict(sorted(shares.items())[:threshold])
    values = {holder: int.from_bytes(share) for holder, share in chosen.items()}
    if any(len(share) != SHARE_BYTES for share in chosen.values()) or max(values.values()) >= PRIME:
        raise AggregationFailed("a share of a secret is no number of the field")
    secret = interpolate_at_zero(values)
    if secret >= 2 ** (8 * SECRET_BYTES):
        raise AggregationFailed("the shares of a secret do not fit together")
    return secret.to_bytes(SECRET_BYTES)


def draw_below_prime(random: RandomBytes) -> int:
    """Return a uniform number of the field: 64 random bits more than it has make the bias of the remainder negligible."""
    return int.from_bytes(random(SHARE_BYTES + 8)) % PRIME


def evaluate(coefficients: list[int], x: int) -> int:
    """Return the value of a polynomial (Horner's scheme). coefficients: the constant one first."""
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value


def interpolate_at_zero(values: Mapping[int, int]) -> int:
    """f(0) of the polynomial of least degree through these points (Lagrange)."""
    total = 0
    for x, value in values.items():
        above = below = 1
        for other in values:
            if other != x:
                above = above * other % PRIME
                below = below * (other - x) % PRIME
        total = (total + value * above * pow(below, -1, PRIME)) % PRIME
    return total
