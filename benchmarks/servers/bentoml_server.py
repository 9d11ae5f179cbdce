"""BentoML with one worker, without its access log. python bentoml_server.py PORT"""

import os
import sys
from pathlib import Path

import bentoml
from network import compute_class


@bentoml.service(workers=1, logging={"access": {"enabled": False}})
class Network:
    @bentoml.api
    def predict(self, features: list[float]) -> dict[str, int]:
        return {"label": compute_class(features)}


if __name__ == "__main__":
    command = Path(sys.executable).with_name("bentoml")
    os.execv(command, ["bentoml", "serve", "bentoml_server:Network", "--host", "127.0.0.1", "--port", sys.argv[1]])
