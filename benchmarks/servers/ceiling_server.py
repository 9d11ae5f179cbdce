"""The least that a Python server can do: ASGI without a framework, and msgspec for JSON.

python ceiling_server.py PORT [granian]: under uvicorn, or under granian
"""

import sys
from typing import Any

import msgspec
from network import compute_class


class PredictRequest(msgspec.Struct):
    features: list[float]


class PredictResponse(msgspec.Struct):
    label: int


decode = msgspec.json.Decoder(PredictRequest).decode
encode = msgspec.json.Encoder().encode
START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    answer = encode(PredictResponse(compute_class(decode(body).features)))
    await send(START)
    await send({"type": "http.response.body", "body": answer})


if __name__ == "__main__":
    port = int(sys.argv[1])
    if sys.argv[2:] == ["granian"]:
        from granian.constants import Interfaces, Loops
        from granian.server import Server

        server = Server(
            "ceiling_server:app", port=port, interface=Interfaces.ASGINL, loop=Loops.asyncio, log_enabled=False
        )
        server.serve()
    else:
        import uvicorn

        uvicorn.run(app, port=port, access_log=False, log_level="error", lifespan="off")
