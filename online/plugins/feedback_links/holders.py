"""The holder of a feedback URL: which prediction the URL is for, and what its holder may do.

query --get_signed_prediction--> the prediction, and what the issuer of the URL grants now --link_caller--> a caller
"""

from typing import Annotated

from fastapi import Depends, Query, Request

from online.api.auth.authentication import CALLER
from online.api.auth.callers import VISITOR, Callers
from online.api.dependencies import ModelDep
from online.plugins.feedback_links.errors import PredictionErased
from online.plugins.feedback_links.issuers import find_grant
from online.plugins.feedback_links.signed_urls import SignedUrls
from online.schemas.access.callers import Caller, Scope
from online.schemas.fields import Name
from online.store.predictions import PredictionRow

LATEST = 253_402_300_799  # the last second of the year 9999


async def get_signed_prediction(
    request: Request,
    model: ModelDep,
    prediction_id: Annotated[Name, Query()],
    signature: Annotated[str, Query()],
    expires: Annotated[int | None, Query(ge=0, le=LATEST)] = None,
    issuer: Annotated[str, Query(max_length=64)] = "",
) -> PredictionRow:
    """Return the prediction of a signed URL. Raises LinkInvalid or LinkExpired, or PredictionErased."""
    request.app.state.parts.find(SignedUrls).check(model.spec.name, prediction_id, expires, issuer, signature)
    request.state.granted = find_grant(request.app.state.callers, issuer, model.spec.name)
    predictions = await model.transactions.load_predictions([prediction_id])
    if prediction_id not in predictions:
        raise PredictionErased(f"{model.spec.name} has no prediction {prediction_id!r}: it was deleted or erased")
    row: PredictionRow = predictions[prediction_id]
    return row


SignedPrediction = Annotated[PredictionRow, Depends(get_signed_prediction)]


def link_caller(request: Request, prediction: PredictionRow) -> Caller:
    """Return the holder of the URL: the user of the prediction, who may rate it, and teach where the issuer of the URL may.

    What visitors may teach is limited as ever. It may act for any user, because a prediction may have none; it reaches no prediction
    but its own. A curator who uses it is trusted as ever.
    """
    callers: Callers = request.app.state.callers
    user, settings = prediction.user, callers.settings
    is_visitor = user is not None and user.startswith(VISITOR)
    teaching = settings.public_teaching if is_visitor else "on"
    scopes: frozenset[Scope] = request.state.granted | {"impersonate"}
    if teaching != "on":
        scopes -= {"teach"}
    own: Caller = request.scope[CALLER]
    if own.is_trusted:
        scopes |= {"curate"}
    anonymous, is_reviewed = is_visitor or user is None, teaching == "review"
    return Caller(
        f"link:{prediction.id}", scopes, address=own.address, is_reviewed=is_reviewed, is_visitor=anonymous, kind="link"
    )
