"""MLServer without worker processes, its fastest mode for a small model. python mlserver_server.py PORT"""

import asyncio
import sys

import mlserver
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput
from network import compute_class


class Runtime(mlserver.MLModel):  # type: ignore[misc]
    async def load(self) -> bool:
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        row = NumpyCodec.decode_input(payload.inputs[0])[0]
        output = ResponseOutput(name="label", shape=[1], datatype="INT64", data=[compute_class(row)])
        return InferenceResponse(model_name=self.name, outputs=[output])


async def serve(port: int) -> None:
    settings = mlserver.Settings(
        host="127.0.0.1", http_port=port, grpc_port=port + 1, metrics_endpoint=None, parallel_workers=0, debug=False
    )
    server = mlserver.MLServer(settings)
    model = mlserver.ModelSettings(name="network", implementation=Runtime)
    await server.start([model])


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
