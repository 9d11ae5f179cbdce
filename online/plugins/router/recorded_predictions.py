"""Predictions for answers that a language model has given without being asked by this service."""

from collections.abc import Iterable

from online.errors import InsufficientStorage
from online.journal import JournalRow
from online.plugins.router.inputs import StatedFacts
from online.plugins.router.live_router import find_router
from online.plugins.router.routed_chat import RoutedChat
from online.serving.model_runtime import ModelRuntime
from online.serving.prediction_rows import instance_json
from online.serving.predictor import encode
from online.serving.versions import EncoderConfig

ID_PREFIX = "recorded-"


def list_candidates(known: Iterable[str], route: str, propensity: float) -> tuple[list[str], list[float]]:
    """Return the routes among which the caller chose, as far as they are known, and their probabilities.

    Those of the others are not known; they share the rest.
    """
    others = sorted({*known} - {route})
    return [route, *others], [propensity, *[(1 - propensity) / max(len(others), 1)] * len(others)]


async def record_prediction(model: ModelRuntime, question: str, route: str, propensity: float, user: str | None) -> str:
    """Record that a route has answered, as a prediction of the live version; return its id.

    Raises BadInput, InsufficientStorage, Unavailable.
    """
    predictor, served = model.predictor, model.live.current
    if predictor.lacks_room:
        raise InsufficientStorage("the disk has too little free space, so that nothing is recorded (min_free_bytes)")
    instance = StatedFacts({"text": question, **({"group": user} if user else {})})
    id = ID_PREFIX + model.new_id()
    known = {*find_router(model).summarise().routes, *model.parts.find(RoutedChat).clients}

    async def record(config: EncoderConfig) -> None:
        features = (await encode(config.encoder, [instance]))[0]
        row = JournalRow(id, user, instance_json(instance, features), features, route, propensity)
        row.candidates, row.scores = list_candidates(known, route, propensity)
        recorder = predictor.recorder
        recorder.journal.append(recorder.build_frame(served, config.encoder_name, [row]))

    await model.transactions.retry_on_encoder_change(record)
    return id
