"""Send requests with KServe's client to the service at argv[1] (REST) and argv[2] (gRPC); print the answers as JSON.

This module runs in the environment of that client.
"""

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


def infer_request(model: str, binary: bool = True, **more: Any) -> InferRequest:
    if model == "chat":
        tensor = InferInput("text", [1], "BYTES")
        tensor.set_data_from_numpy(np.array([QUESTION.encode()], dtype=object), binary_data=binary)
    else:
        tensor = InferInput("x", [2, 2], "FP32")
        tensor.set_data_from_numpy(BOTH, binary_data=binary)
    return InferRequest(model_name=model, infer_inputs=[tensor], **more)


def output_texts(answer: Any, name: str) -> list[str]:
    """The strings of an output, which are bytes in binary form and text in JSON."""
    values = answer.get_output_by_name(name).as_numpy().ravel().tolist()
    return [value.decode() if isinstance(value, bytes) else value for value in values]


async def rest(url: str) -> dict[str, Any]:
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as v2, InferenceRESTClient() as v1:
        answers: dict[str, Any] = {
            "server": [await v2.is_server_live(url), await v2.is_server_ready(url)],
            "model v2": [await v2.is_model_ready(url, "vec"), await v2.is_model_ready(url, "nobody")],
            "model v1": await v1.is_model_ready(url, "vec"),
        }
        answer = await v2.infer(url, infer_request("chat", request_id="mine"), model_name="chat")
        answers["binary"] = [answer.id, answer.model_name, output_texts(answer, "id")]
        as_bytes = infer_request("chat", parameters={"binary_data_output": True})
        answers["bytes back"] = output_texts(await v2.infer(url, as_bytes, model_name="chat"), "id")
        answers["json"] = output_texts(
            await v2.infer(url, infer_request("vec", binary=False), model_name="vec"), "classes"
        )
        wanted = infer_request("vec", request_outputs=[RequestedOutput("scores", {"binary_data": True})])
        answer = await v2.infer(url, wanted, model_name="vec")
        answers["requested"] = [[each.name for each in answer.outputs], [*answer.outputs[0].as_numpy().shape]]
        answer = await v1.infer(url, {"instances": [QUESTION]}, model_name="chat")
        answers["v1"] = answer["predictions"][0]["reply"]["id"]
        answers["unknown"] = []
        for client in (v1, v2):
            try:
                await client.infer(url, {"instances": [1], "inputs": [1]}, model_name="nobody")
            except httpx.HTTPStatusError as error:
                answers["unknown"].append([error.response.status_code, str(error)])
        try:
            await v1.is_model_ready(url, "nobody")
        except httpx.HTTPStatusError as error:
            answers["unknown"].append([error.response.status_code, str(error)])
        return answers


async def rpc(address: str) -> dict[str, Any]:
    async with InferenceGRPCClient(address) as client:
        answers: dict[str, Any] = {
            "ready": [await client.is_server_live(), await client.is_server_ready(), await client.is_model_ready("vec")]
        }
        answer = await client.infer(infer_request("chat", request_id="mine"))
        answers["raw"] = [answer.id, output_texts(answer, "id")]
        answers["typed"] = output_texts(await client.infer(infer_request("vec", binary=False)), "classes")
        try:
            await client.infer(infer_request("nobody"))
        except grpc.RpcError as error:
            answers["unknown"] = [error.code().name, error.details()]
        return answers


async def run_all() -> dict[str, Any]:
    return {"rest": await rest(sys.argv[1]), "grpc": await rpc(sys.argv[2])}


print(json.dumps(asyncio.run(run_all())))
