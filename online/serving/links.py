"""Presigned URLs: in every answer one by which whoever holds it may say what they think of that answer, and no more.

The signature is an HMAC of the model's name and the prediction's id, by a key made from the state folder's secret.
"""

import hmac
from collections.abc import Sequence
from urllib.parse import quote

from starlette.requests import Request

from online.errors import Forbidden

SIGNATURE_DIGITS = 32


class Links:
    """Signs URLs and checks them. One secret signs the same for as long as the state folder lives."""

    def __init__(self, secret: str, public_url: str | None) -> None:
        self.public_url = public_url and public_url.rstrip("/")
        key = hmac.digest(bytes.fromhex(secret), b"feedback links", "sha256")
        self._signing = hmac.new(key, digestmod="sha256")

    def signature(self, model: str, prediction_id: str) -> str:
        signing = self._signing.copy()  # several times as fast as with the key each time
        signing.update(f"{model}/{prediction_id}".encode())
        return signing.hexdigest()[:SIGNATURE_DIGITS]

    def check(self, model: str, prediction_id: str, signature: str) -> None:
        """Raises Forbidden."""
        if not hmac.compare_digest(self.signature(model, prediction_id).encode(), signature.encode()):
            raise Forbidden(
                "the signature of this feedback link is not valid for its model and prediction: it was cut short or "
                "changed, or another service made it; ask for the answer's feedback_url again"
            )

    def urls(self, request: Request, model: str, prediction_ids: Sequence[str]) -> list[str]:
        """Under the address that is set, or else under that of the request."""
        path = f"{self.public_url or base_of(request)}/v1/models/{quote(model)}/feedback?prediction_id="
        return [f"{path}{quote(id)}&signature={self.signature(model, id)}" for id in prediction_ids]


def base_of(request: Request) -> str:
    """What the caller put before the path."""
    scope = request.scope
    return f"{scope['scheme']}://{request.headers.get('host', '')}{scope.get('root_path', '')}"
