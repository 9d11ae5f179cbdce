"""The devices of the service: their memory, and which model learns and answers on which of them."""

import asyncio

from fastapi import Response

from online.api.auth.scopes import CallerDep
from online.api.dependencies import RuntimeDep
from online.api.responses import json_response
from online.api.routes import Router
from online.models.devices.probe import measure_cpu
from online.plugins.devices.device_reports import collect_reports, describe_device, summarize
from online.plugins.devices.schemas import DevicesAnswer
from online.serving.runtime import Runtime

router = Router()


@router.get("/v1/devices", "operate", response_model=DevicesAnswer)
async def get_devices(runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Every device that a process of the service uses, what lies there, and where memory ran out.

    An accelerator that no process uses is not listed: to look at it would take some of its memory.
    """
    answer = await asyncio.to_thread(read_devices, runtime)
    places = [place for place in answer.places if caller.may_use(place.model)]
    fallbacks = [each for each in answer.fallbacks if caller.may_use(each.model)]
    return json_response(answer.model_copy(update={"places": places, "fallbacks": fallbacks}).model_dump())


def read_devices(runtime: Runtime) -> DevicesAnswer:
    """Return the devices of all processes as they last reported them, and this machine's CPU."""
    return summarize(collect_reports(runtime.workspace.state), [describe_device(measure_cpu())])
