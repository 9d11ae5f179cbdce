"""Sums of a device on their way into the log: checked, stored durably, then acknowledged.

file --checked by a model with the options of the live one--> one event of the log, with the bytes of the file
"""

import asyncio
import hashlib
import json
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection

from online.errors import BadInput, TooLarge
from online.models import BadExample, Example, create
from online.models.contributions import Contribution, find_merging_obstacle, read_contribution
from online.models.exchange.sums_file import check_contents, read_metadata
from online.schemas.access.callers import Caller
from online.schemas.feedback import Receipt
from online.serving.feedback.feedback import Feedback
from online.serving.processes.store_messages import NewFeedback, SubmitFeedback
from online.serving.versions import EncoderConfig
from online.settings import ModelSettings, Settings


async def submit_sums(
    feedback: Feedback,
    data: bytes,
    id: str | None,
    user: str | None,
    caller: Caller,
    most: int | None = None,
    alongside: Callable[[Connection], None] | None = None,
) -> Receipt:
    """Store the sums of a device, to be learned as a whole.

    id: an idempotency key. user: on whose behalf, if the caller may act for others. most: examples; None: as many as the
    settings allow at once. alongside: work in the same transaction, which this process then commits itself; if it raises,
    nothing is stored. Raises an OnlineError, which names its HTTP status.
    """
    own_id, own_user = id or feedback.transactions.new_id(), caller.acts_for(user)

    async def submit(config: EncoderConfig) -> Receipt:
        contribution = await asyncio.to_thread(check_file, data, feedback.spec, feedback.settings, config, most)
        item = prepare_sums(data, contribution, own_id, own_user, is_id_chosen=id is not None)
        encoders = [config.encoder_name]
        work = SubmitFeedback(feedback.name, [item], caller, encoders, may_be_known=id is not None)
        stored = feedback.perform(work) if alongside is None else feedback.submit_with(work, alongside)
        return (await stored)[0]

    receipt = await feedback.transactions.retry_on_encoder_change(submit)
    feedback.note_acknowledged([receipt])
    feedback.metrics.feedback.labels(feedback.name, "sums").inc()
    return receipt


def check_file(
    data: bytes, model: ModelSettings, settings: Settings, config: EncoderConfig, most: int | None
) -> Contribution:
    """Check everything about a file of sums that does not depend on who sends it. Raises BadInput and TooLarge."""
    obstacle = find_merging_obstacle(model.kind, config.options)
    if obstacle is not None:
        raise BadInput(f"{model.name} takes no sums: {obstacle}")
    try:
        create(model.kind, config.options).check([Example(0, "sums", data, "")])
        contribution = read_contribution(data)
        check_contents(data)
    except (BadExample, ValueError) as error:
        raise BadInput(str(error)) from None
    if contribution.count > (settings.max_merge_examples if most is None else most):
        raise TooLarge(
            f"the sums are of {contribution.count:,} examples; at most {settings.max_merge_examples:,} are merged at once "
            "(max_merge_examples)"
        )
    longest = max(read_metadata(data)["classes"], key=len)
    if len(longest) > settings.max_label_chars:
        raise TooLarge(
            f"a class has a name of {len(longest)} characters; it may have {settings.max_label_chars} (max_label_chars)"
        )
    return contribution


def prepare_sums(data: bytes, contribution: Contribution, id: str, user: str | None, is_id_chosen: bool) -> NewFeedback:
    """Return an item of feedback whose content names the file, so that another file under the same id is a conflict."""
    content = {"id": id, "sums_sha256": hashlib.sha256(data).hexdigest(), "example_count": contribution.count}
    content |= {} if user is None else {"user": user}
    write = partial(json.dumps, separators=(",", ":"))
    return NewFeedback(id, write(content), is_id_chosen, user=user, features=data, example_count=contribution.count)
