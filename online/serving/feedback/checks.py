"""Checks of feedback items, before anything is encoded or written."""

import json
from collections.abc import Sequence

from online.errors import BadInput, TooLarge
from online.models import parse_number, spec_of
from online.schemas.feedback import FeedbackItem
from online.serving.predictor import check_size
from online.settings import ModelSettings, Settings
from online.store.database.values import ERASED

SIGNALS = ("reward", "label", "correction", "outcome")
NOT_LEARNED = ("id", "reason", "comment")  # fields of an item that are not learned


def check_items(items: Sequence[FeedbackItem], model: ModelSettings, settings: Settings) -> None:
    """Check the items of a request. Raises TooLarge, or BadInput that names the item's position."""
    if len(items) > settings.max_instances:
        raise TooLarge(f"{len(items)} feedback items; at most {settings.max_instances} in one request (max_instances)")
    check_size([item.input for item in items if item.input is not None], settings)
    for place, item in enumerate(items):
        check_signal(place, item)
        check_label(place, item, settings)
        check_task(place, item, model)


def check_signal(place: int, item: FeedbackItem) -> None:
    """Check that an item has one signal, about either a prediction or an input. Raises BadInput."""
    given = [name for name in SIGNALS if getattr(item, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise BadInput(
            f"feedback {place} must have exactly one of reward, label, correction and outcome; it has {found}"
        )
    if item.scope is not None and item.correction is None:
        raise BadInput(
            f"feedback {place} has the scope {item.scope!r}, but no correction: only a correction has a scope"
        )
    if (item.prediction_id is None) == (item.input is None):
        raise BadInput(f"feedback {place} must have either a prediction_id or an input")
    check_choice(place, item)


def check_choice(place: int, item: FeedbackItem) -> None:
    """Check that a reward says what it judges: a prediction has its choice, an input needs one. Raises BadInput."""
    judges = item.reward is not None or item.outcome is not None
    if item.input is not None and judges and item.choice is None:
        raise BadInput(
            f"feedback {place} has no prediction_id, and a reward judges an answer, as an outcome does: send the prediction_id, "
            "the choice that a device answered to the input, or a label for the input"
        )
    if item.choice is not None and (item.input is None or not judges):
        raise BadInput(
            f"feedback {place} has the choice {item.choice!r}: only a reward for an input has one; "
            "a prediction is known by its prediction_id"
        )


def check_label(place: int, item: FeedbackItem, settings: Settings) -> None:
    """Raise BadInput for a label that is empty or too long."""
    for name in ("label", "choice"):
        label = getattr(item, name)
        if label is None:
            continue
        if not label.strip():
            raise BadInput(f"feedback {place} has an empty {name}")
        if len(label) > settings.max_label_chars:
            raise TooLarge(
                f"feedback {place} has a {name} of {len(label)} characters; it may have "
                f"{settings.max_label_chars} (max_label_chars)"
            )


def check_task(place: int, item: FeedbackItem, model: ModelSettings) -> None:
    """Check that the kind of model learns from the signal. Raises BadInput."""
    if item.correction is not None and not spec_of(model.kind).has_repertoire:
        raise BadInput(f"feedback {place} is a correction, but {model.name} is a {model.kind}: send a label")
    if spec_of(model.kind).predicts_numbers:
        check_number(place, item)
    if (item.outcome is not None or item.signal is not None) and not spec_of(model.kind).has_routes:
        given = "an outcome" if item.outcome is not None else f"the signal {item.signal!r}"
        raise BadInput(f"feedback {place} has {given}, which a router learns from; {model.name} is a {model.kind}")
    if item.signal is not None and item.reward is None:
        raise BadInput(f"feedback {place} has the signal {item.signal!r}, but no reward: only a reward has a signal")


def check_number(place: int, item: FeedbackItem) -> None:
    """Check that the item gives a number. Raises BadInput."""
    if item.reward is not None:
        raise BadInput(
            f"feedback {place} is a reward, but the model predicts numbers and learns from the right ones; send a label"
        )
    try:
        parse_number(item.label or "")
    except ValueError as error:
        raise BadInput(f"feedback {place}: {error}") from None


def signal_of(item: FeedbackItem) -> str:
    """Return the name of the signal that an item gives."""
    return next(name for name in SIGNALS if getattr(item, name) is not None)


def learned_fields(content: str) -> dict[str, object]:
    """Return the fields of an item that are learned, or name its user. content: the item as JSON, or "erased"."""
    given = {} if content == ERASED else json.loads(content)
    return {name: value for name, value in given.items() if name not in NOT_LEARNED}
