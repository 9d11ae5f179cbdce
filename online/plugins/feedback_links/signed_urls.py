"""Signed feedback URLs: every answer has one for each prediction. Its holder may rate that prediction, and do nothing else.

    .../v1/models/chat/feedback?prediction_id=ID&expires=1790000000&issuer=ISSUER&signature=1f3a5b7c.<32 hexadecimal digits>
                                                                                            key id

The signature covers the model's name, the prediction's id, the instant at which the URL expires, and for which caller it was created
(issuers.py), with a key for links only.
It is not itsdangerous because that derives its key for each signature, while a prediction here signs with a copy of a prepared
HMAC in about a microsecond.
"""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from starlette.requests import Request

from online.api.auth.authentication import CALLER
from online.api.auth.locality import is_loopback
from online.plugins.feedback_links.errors import LinkExpired, LinkInvalid
from online.plugins.feedback_links.issuers import name_issuer
from online.plugins.feedback_links.settings import FeedbackLinkSettings
from online.schemas.access.callers import Caller
from online.serving.parts import ServicePart
from online.settings import Settings
from online.state.signing_keys import SigningKeys
from online.telemetry import log_event

log = logging.getLogger("online.signed_urls")

DAY_S = 86_400
PURPOSE = "links"


class SignedUrls(ServicePart):
    """Creates and checks signed URLs.

    Without a `public_url` they carry the address of the request, which a caller chooses. That is fine on a loopback address; a
    service that others can reach creates no URLs then.
    """

    def __init__(self, keys: SigningKeys, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.keys, self._clock = keys, clock
        self.public_url = settings.public_url and settings.public_url.rstrip("/")
        self.can_create = self.public_url is not None or is_loopback(settings.host)
        self.valid_s = settings.part(FeedbackLinkSettings).feedback_url_days * DAY_S

    def sign(self, model: str, prediction_id: str, expires: int, issuer: str) -> str:
        """expires: in seconds since 1970."""
        return self.keys.sign(PURPOSE, build_message(model, prediction_id, expires, issuer))

    def check(self, model: str, prediction_id: str, expires: int | None, issuer: str, signature: str) -> None:
        """Raise LinkInvalid or LinkExpired. expires: None for a URL that was cut off."""
        message = build_message(model, prediction_id, expires, issuer)
        if expires is None or not self.keys.check(PURPOSE, message, signature):
            raise LinkInvalid(
                "the signature of this feedback URL is not valid for its model and prediction: the URL was changed or cut "
                "off, its key was rotated, or another service created it; use the feedback_url of the answer"
            )
        if expires < self._clock():
            raise LinkExpired(
                f"this feedback URL expired on {datetime.fromtimestamp(expires, UTC):%Y-%m-%d}; ask again"
            )

    def create(self, request: Request, model: str, prediction_ids: Sequence[str]) -> list[str]:
        """Return a URL for each prediction.

        None where the address of the service is not known, and for a caller that may not give feedback itself.
        """
        caller: Caller = request.scope[CALLER]
        if not (self.can_create and caller.may("feedback")):
            return []
        expires = int(self._clock()) + self.valid_s
        path = f"{self.public_url or base_url(request)}/v1/models/{quote(model)}/feedback?prediction_id="
        sign, issuer = self.sign, name_issuer(caller)
        query = f"&expires={expires}{f'&issuer={issuer}' if issuer else ''}&signature="
        return [f"{path}{quote(id)}{query}{sign(model, id, expires, issuer)}" for id in prediction_ids]

    def warn_if_off(self) -> None:
        """Log that answers carry no URLs, if that is so."""
        if not self.can_create:
            remedy = "set public_url to the address by which clients reach the service"
            log_event(log, "answers carry no feedback URLs", logging.WARNING, remedy=remedy)


def build_message(model: str, prediction_id: str, expires: int | None, issuer: str) -> bytes:
    """Return what is signed. issuer: "" for a visitor."""
    return "\n".join([str(expires), f"{model}/{prediction_id}", *([issuer] if issuer else [])]).encode()


def base_url(request: Request) -> str:
    """Return the scheme, host and path prefix of a request."""
    scope = request.scope
    return f"{scope['scheme']}://{request.headers.get('host', '')}{scope.get('root_path', '')}"
