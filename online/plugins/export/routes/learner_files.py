"""Files with which a device answers and goes on learning where it has no connection.

    classifier  sums, as a version has learned them           export?format=learner
    ranker      its replies and their example questions        replies:offline

A file of sums shows averages of what others have taught, and of a class with one example that example. So it needs the scope
curate, unless the model's setting `share_sums` is true.
"""

import asyncio
from functools import partial

from fastapi import Request, Response

from online.api.auth.scopes import check_scope
from online.api.dependencies import ModelDep
from online.api.responses import live_headers
from online.api.rest.replies import check_ranker
from online.api.routes import Router
from online.plugins.export.model_exports import exports_of
from online.plugins.export.repertoire_files import write_repertoire_file
from online.plugins.export.routes.sending import JSON, describe_file, send_file
from online.schemas.access.callers import Caller
from online.serving.model_runtime import ModelRuntime

router = Router()


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
