"""The messages of a cohort as they are stored: most in places of a fixed length, so that one share is read without the others.

joining     the public keys for sealing and for masking
sharing     the commitment, then the shares sealed for each member, by number; zeros in the place of the sender
masking     the packed values
unmasking   JSON, as it was sent
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping

from online.errors import BadInput
from online_federated.schemas import (
    CohortParameters,
    JoinRequest,
    SharesMessage,
    UnmaskingMessage,
    ValuesMessage,
)
from online_federated.secure_aggregation.layout import SumLayout
from online_federated.secure_aggregation.messages import KEY_BYTES, PublicKeys, Unmasking
from online_federated.secure_aggregation.shamir import SHARE_BYTES
from online_federated.tables import CohortRow
from online_federated.values import SumLimits, choose_layout

SEALED_BYTES = 2 * SHARE_BYTES + 16  # two shares, and the tag of AES-GCM
COMMITMENT = slice(0, KEY_BYTES)  # of the body of shares
Message = SharesMessage | ValuesMessage | UnmaskingMessage


def choose_values_layout(parameters: CohortParameters, width: int) -> SumLayout:
    """Return the layout of the values of a cohort."""
    return choose_layout(len(parameters.classes), width, limits_of(parameters))


def limits_of(parameters: CohortParameters) -> SumLimits:
    """Return the limits of a cohort's total."""
    return SumLimits(
        parameters.size * parameters.max_examples,
        parameters.max_class_examples,
        parameters.max_negative_examples,
        parameters.max_mean_square,
    )


def write_keys(keys: JoinRequest) -> bytes:
    """Encode the public keys of a member. Raises BadInput."""
    return decode(keys.sealing, KEY_BYTES) + decode(keys.masking, KEY_BYTES)


def read_keys(body: bytes) -> PublicKeys:
    """Return the public keys of a member."""
    return PublicKeys(body[:KEY_BYTES], body[KEY_BYTES:])


def describe_keys(body: bytes) -> JoinRequest:
    """Return the public keys as their message."""
    keys = read_keys(body)
    return JoinRequest(sealing=encode(keys.sealing), masking=encode(keys.masking))


def write_body(message: Message, row: CohortRow, number: int) -> bytes:
    """Return the body of a message of a member. Raises BadInput for one that no member sends in its round."""
    if isinstance(message, SharesMessage):
        return write_shares(message, row.member_count, number)
    if isinstance(message, ValuesMessage):
        layout = choose_values_layout(CohortParameters.model_validate_json(row.parameters), row.width)
        return decode(message.packed, layout.byte_count)
    shares = (message.masking_keys, message.seeds)
    if shares[0].keys() & shares[1].keys() or not {*shares[0], *shares[1]} <= {*range(1, row.member_count + 1)}:
        raise BadInput(
            f"the message must reveal at most one secret of each member, and only of the members 1 to {row.member_count}"
        )
    for share in (*shares[0].values(), *shares[1].values()):
        decode(share, SHARE_BYTES)
    return message.model_dump_json().encode()


def write_shares(message: SharesMessage, member_count: int, number: int) -> bytes:
    """Encode the sealed shares of a member. Raises BadInput."""
    members = range(1, member_count + 1)
    if message.sealed.keys() != {*members} - {number}:
        raise BadInput(
            f"the message of member {number} must have one sealed share for each of the members 1 to {member_count} but itself"
        )
    sealed = {other: decode(each, SEALED_BYTES) for other, each in message.sealed.items()}
    return decode(message.commitment, KEY_BYTES) + b"".join(sealed.get(each, bytes(SEALED_BYTES)) for each in members)


def place_of_share(number: int) -> slice:
    """Return where a body holds what is sealed for a member."""
    start = KEY_BYTES + (number - 1) * SEALED_BYTES
    return slice(start, start + SEALED_BYTES)


def read_unmasking(body: bytes) -> Unmasking:
    """Return the shares that a member revealed."""
    message = UnmaskingMessage.model_validate_json(body)
    return Unmasking(decode_each(message.masking_keys), decode_each(message.seeds))


def decode_each(texts: Mapping[int, str]) -> dict[int, bytes]:
    """Decode base64 values."""
    return {number: decode(text) for number, text in texts.items()}


def encode(data: bytes) -> str:
    """Encode bytes as base64."""
    return b64encode(data).decode()


def decode(text: str, length: int | None = None) -> bytes:
    """Decode base64. Raises BadInput."""
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadInput("a value is no base64") from None
    if length is not None and len(data) != length:
        raise BadInput(f"a value has {len(data)} bytes, where {length} are expected")
    return data
