"""LitServe with one worker. python litserve_server.py PORT"""

import sys
from typing import Any

import litserve
from network import compute_class


class Api(litserve.LitAPI):  # type: ignore[misc]
    def setup(self, device: str) -> None:
        pass

    def decode_request(self, request: dict[str, Any]) -> list[float]:
        features: list[float] = request["features"]
        return features

    def predict(self, row: list[float]) -> int:
        return compute_class(row)

    def encode_response(self, label: int) -> dict[str, int]:
        return {"label": label}


if __name__ == "__main__":
    server = litserve.LitServer(Api(), accelerator="cpu", workers_per_device=1)
    server.run(port=int(sys.argv[1]), host="127.0.0.1", log_level="error", generate_client_file=False)
