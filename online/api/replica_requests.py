"""Requests that another replica has to answer, because only its state folder has what they are about: a job, an upload, a report.

    or_elsewhere     this replica knows nothing of it --> the replica that does
    at_owner         one replica has all that is made for a model, whichever is asked
    gather           the lists of all replicas

Without other replicas, each request is answered here. The plugin `cluster` knows how the others are reached.
"""

from collections.abc import Awaitable, Sequence

from fastapi import Request, Response

from online.errors import NotFound
from online.installed import ContributedParts
from online.schemas.json_values import JSONObject
from online.serving.parts import ServicePart

FORWARDED = "online.forwarded"  # key of an ASGI scope: a replica has sent the request; true where that is proven: it has counted it


class ReplicaRequests(ServicePart):
    """Sends requests to other replicas; there are none here. A request that a replica has sent is never sent on."""

    async def find_answer(self, request: Request) -> Response | None:
        """Return the answer of the first replica that does not answer with status 404; None where there is none."""
        return None

    async def ask_owner(self, request: Request, model: str) -> Response | None:
        """Return the answer of the replica that makes things for a model; None where this is the one."""
        return None

    async def gather(self, request: Request) -> Sequence[JSONObject]:
        """Return what the other replicas answer, without those that fail."""
        return ()

    async def describe_absent(self) -> str:
        """Return a remark on replicas that do not answer, for an error; "" where there are none."""
        return ""


def find_requests(request: Request) -> ReplicaRequests:
    """Return what sends requests to other replicas."""
    parts: ContributedParts = request.app.state.parts
    return next(iter(parts.list(ReplicaRequests)), ReplicaRequests())


async def or_elsewhere(request: Request, answer: Awaitable[Response]) -> Response:
    """Return an answer, or that of another replica where this one raises NotFound. Raises NotFound."""
    try:
        return await answer
    except NotFound as error:
        others = find_requests(request)
        if (found := await others.find_answer(request)) is not None:
            return found
        if remark := await others.describe_absent():
            raise NotFound(f"{error}{remark}") from None
        raise


async def at_owner(request: Request, model: str) -> Response | None:
    """Return the answer of the replica that makes things for a model; None where this is the one."""
    return await find_requests(request).ask_owner(request, model)


async def gather(request: Request, name: str) -> list[JSONObject]:
    """Return the entries of a list in what the other replicas answer. name: of the list."""
    answers = await find_requests(request).gather(request)
    return [entry for answer in answers for entry in answer.get(name, [])]
