"""Run in an environment of its own: KServe's client asks the service whose addresses it is given, and tells what it got."""

import asyncio
import json
import sys
from typing import Any

import grpc
import httpx
import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput

QUESTION, BOTH = "Can I print here?", np.array([[1, 0], [0, 1]], np.float32)


def asking(model: str, binary: bool = True, **more: Any) -> InferRequest:
    if model == "chat":
        given = InferInput("text", [1], "BYTES")
        given.set_data_from_numpy(np.array([QUESTION.encode()], dtype=object), binary_data=binary)
    else:
        given = InferInput("x", [2, 2], "FP32")
        given.set_data_from_numpy(BOTH, binary_data=binary)
    return InferRequest(model_name=model, infer_inputs=[given], **more)


def shown(answer: Any, name: str) -> list[str]:
    """The texts of an output, as bytes or as JSON has them."""
    values = answer.get_output_by_name(name).as_numpy().ravel().tolist()
    return [value.decode() if isinstance(value, bytes) else value for value in values]


async def rest(url: str) -> dict[str, Any]:
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as v2, InferenceRESTClient() as v1:
        told: dict[str, Any] = {
            "server": [await v2.is_server_live(url), await v2.is_server_ready(url)],
            "model v2": [await v2.is_model_ready(url, "vec"), await v2.is_model_ready(url, "nobody")],
            "model v1": await v1.is_model_ready(url, "vec"),
        }
        answer = await v2.infer(url, asking("chat", request_id="mine"), model_name="chat")
        told["binary"] = [answer.id, answer.model_name, shown(answer, "id")]
        as_bytes = asking("chat", parameters={"binary_data_output": True})
        told["bytes back"] = shown(await v2.infer(url, as_bytes, model_name="chat"), "id")
        told["json"] = shown(await v2.infer(url, asking("vec", binary=False), model_name="vec"), "classes")
        wanted = asking("vec", request_outputs=[RequestedOutput("scores", {"binary_data": True})])
        answer = await v2.infer(url, wanted, model_name="vec")
        told["requested"] = [[each.name for each in answer.outputs], [*answer.outputs[0].as_numpy().shape]]
        answer = await v1.infer(url, {"instances": [QUESTION]}, model_name="chat")
        told["v1"] = answer["predictions"][0]["reply"]["id"]
        told["unknown"] = []
        for client in (v1, v2):
            try:
                await client.infer(url, {"instances": [1], "inputs": [1]}, model_name="nobody")
            except httpx.HTTPStatusError as error:
                told["unknown"].append([error.response.status_code, str(error)])
        try:
            await v1.is_model_ready(url, "nobody")
        except httpx.HTTPStatusError as error:
            told["unknown"].append([error.response.status_code, str(error)])
        return told


async def rpc(address: str) -> dict[str, Any]:
    async with InferenceGRPCClient(address) as client:
        told: dict[str, Any] = {
            "ready": [await client.is_server_live(), await client.is_server_ready(), await client.is_model_ready("vec")]
        }
        answer = await client.infer(asking("chat", request_id="mine"))
        told["raw"] = [answer.id, shown(answer, "id")]
        told["typed"] = shown(await client.infer(asking("vec", binary=False)), "classes")
        try:
            await client.infer(asking("nobody"))
        except grpc.RpcError as error:
            told["unknown"] = [error.code().name, error.details()]
        return told


async def asked() -> dict[str, Any]:
    return {"rest": await rest(sys.argv[1]), "grpc": await rpc(sys.argv[2])}


print(json.dumps(asyncio.run(asked())))
