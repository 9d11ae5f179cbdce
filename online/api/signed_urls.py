"""Signed feedback URLs: every answer has one for each prediction. Its holder may rate that prediction, and do nothing else.

The signature is an HMAC-SHA256 of the model's name and the prediction's id, with a key derived from the secret of the state
folder. It is not itsdangerous for two reasons: URLs that earlier releases gave out must stay valid, and itsdangerous derives
its key for each signature, while a prediction here signs with a copy of a prepared HMAC in about a microsecond.
"""

import hmac
from collections.abc import Sequence
from urllib.parse import quote

from starlette.requests import Request

from online.errors import Forbidden

SIGNATURE_DIGITS = 32


class SignedUrls:
    """Creates and checks signed URLs. They stay valid as long as the state folder exists."""

    def __init__(self, secret: str, public_url: str | None) -> None:
        self.public_url = public_url and public_url.rstrip("/")
        key = hmac.digest(bytes.fromhex(secret), b"feedback links", "sha256")
        self._hmac = hmac.new(key, digestmod="sha256")

    def sign(self, model: str, prediction_id: str) -> str:
        signing = self._hmac.copy()  # several times as fast as a new HMAC
        signing.update(f"{model}/{prediction_id}".encode())
        return signing.hexdigest()[:SIGNATURE_DIGITS]

    def check(self, model: str, prediction_id: str, signature: str) -> None:
        """Raises Forbidden."""
        if not hmac.compare_digest(self.sign(model, prediction_id).encode(), signature.encode()):
            raise Forbidden(
                "the signature of this feedback URL is not valid for its model and prediction: the URL was changed or cut "
                "off, or another service created it; use the feedback_url of the answer"
            )

    def create(self, request: Request, model: str, prediction_ids: Sequence[str]) -> list[str]:
        """A URL for each prediction, under `public_url` or else under the address of the request."""
        path = f"{self.public_url or base_url(request)}/v1/models/{quote(model)}/feedback?prediction_id="
        return [f"{path}{quote(id)}&signature={self.sign(model, id)}" for id in prediction_ids]


def base_url(request: Request) -> str:
    """The scheme, host and path prefix of a request."""
    scope = request.scope
    return f"{scope['scheme']}://{request.headers.get('host', '')}{scope.get('root_path', '')}"
