"""Files with which a device answers and goes on learning where it has no connection.

    classifier  sums, as a version has learned them           export?format=learner
    ranker      its replies and their example questions        replies:offline

A file of sums shows averages of what others have taught, and of a class with one example that example. So it needs the scope
curate, unless the model's setting `share_sums` is true.
"""

import asyncio
import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass
from functools import partial

from fastapi import Request, Response
from sqlalchemy import Connection

from online.api.auth.scopes import check_scope
from online.api.dependencies import ModelDep
from online.api.responses import live_headers
from online.api.rest.replies import check_ranker
from online.api.routes import Router
from online.plugins.export.model_exports import exports_of
from online.plugins.export.routes.sending import JSON, describe_file, send_file
from online.schemas.access.callers import Caller
from online.serving.model_runtime import ModelRuntime
from online.store.repertoire.examples import load_examples
from online.store.repertoire.replies import load_replies

router = Router()

FORMAT = 1  # of a repertoire


@dataclass(frozen=True, slots=True)
class RepertoireFile:
    """The replies of a ranker and their example questions, as they are written, and the hash of that.

    Texts instead of features: a device encodes them as it can, and the file of a hundred replies is a few kilobytes.
    """

    data: bytes
    sha256: str


def write_repertoire_file(connection: Connection, model: str) -> RepertoireFile:
    """Return the file of the replies that are active: JSON, the same bytes for the same replies."""
    examples = defaultdict[str, list[str]](list)
    for reply, _, text in load_examples(connection, model):
        examples[reply].append(text)
    replies = [
        {"id": row.id, "text": row.text, "examples": examples[row.id]}
        for row in load_replies(connection, model)
        if row.active
    ]
    content = {"format": FORMAT, "model": model, "replies": replies}
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    return RepertoireFile(data, hashlib.sha256(data).hexdigest())


async def send_learner_file(request: Request, caller: Caller, model: ModelRuntime, version: str) -> Response:
    """Send the file with which a device goes on learning. Raises Forbidden, and what `LearnerFiles.load` raises."""
    check_may_read_sums(caller, model)
    number = await asyncio.to_thread(model.snapshots.labels.resolve, version)
    file = await exports_of(model).learner_files.load(number)
    return send_file(request, file.data, file.sha256, {"X-Model-Version": str(file.version)})


def check_may_read_sums(caller: Caller, model: ModelRuntime) -> None:
    """Raise Unauthorized or Forbidden."""
    if not model.spec.share_sums:
        check_scope(caller, "curate", model.spec.name)


@router.get(
    "/v1/models/{model}/replies:offline", "predict", response_class=Response, responses=describe_file(media_type=JSON)
)
async def send_repertoire(request: Request, model: ModelDep) -> Response:
    """The replies that are given now and their example questions, from which a device answers without the service.

    It holds what `GET replies/{id}` shows, of the replies that are not retired.
    """
    check_ranker(model)
    file = await model.read(partial(write_repertoire_file, model=model.spec.name))
    return send_file(request, file.data, file.sha256, live_headers(model), JSON)
