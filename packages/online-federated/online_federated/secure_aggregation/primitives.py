"""The cryptography, all of it from the library of that name: X25519, HKDF-SHA256, AES-256-GCM, and AES-256-CTR as generator."""

import hashlib

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from online_federated.secure_aggregation.errors import AggregationFailed
from online_federated.secure_aggregation.messages import KEY_BYTES

FIELD = 2**255 - 19  # of the coordinates of public keys
PROBE = bytes([1]) * KEY_BYTES  # a private key that nobody uses
NONCE = bytes(12)  # every key seals one message only
COUNTER = bytes(16)  # every seed is expanded once


def public_key(private: bytes) -> bytes:
    """Return the public key of a private one."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, public: bytes, purpose: bytes) -> bytes:
    """Return the key of 32 bytes that two holders of keys share for a purpose. Raises AggregationFailed for a bad public key."""
    try:
        shared = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:  # of another length, or of small order
        raise AggregationFailed(f"a public key is invalid: {error}") from None
    return HKDF(hashes.SHA256(), KEY_BYTES, None, purpose).derive(shared)


def check_public_key(public: bytes) -> None:
    """Raise AggregationFailed for a key that no client makes: not reduced modulo the prime, or of small order."""
    if int.from_bytes(public, "little") >= FIELD:
        raise AggregationFailed("a public key is invalid: it is not reduced modulo 2^255 - 19")
    agree(PROBE, public, b"")


def seal(key: bytes, message: bytes, context: bytes) -> bytes:
    """Encrypt and authenticate. key: of this one message. context: is authenticated, too."""
    return AESGCM(key).encrypt(NONCE, message, context)


def unseal(key: bytes, sealed: bytes, context: bytes) -> bytes:
    """Open what was sealed. Raises AggregationFailed for what was not sealed with this key and context."""
    try:
        return AESGCM(key).decrypt(NONCE, sealed, context)
    except (InvalidTag, ValueError):
        raise AggregationFailed("a sealed share was changed on its way") from None


def expand(seed: bytes, count: int) -> NDArray[np.uint64]:
    """`count` pseudo-random numbers of 64 bits."""
    stream = Cipher(algorithms.AES256(seed), modes.CTR(COUNTER)).encryptor().update(bytes(8 * count))
    return np.frombuffer(stream, "<u8")


def commit(seed: bytes) -> bytes:
    """Return what shows later that a seed is the same one. It hides the seed, which is uniform."""
    return hashlib.sha256(b"online secure aggregation seed" + seed).digest()
