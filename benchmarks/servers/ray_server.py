"""Ray Serve with one replica. python ray_server.py PORT"""

import sys
import time
from typing import Any

import ray
from network import compute_class
from ray import serve


@serve.deployment(max_ongoing_requests=100, logging_config={"enable_access_log": False})
class Network:
    async def __call__(self, request: Any) -> dict[str, int]:
        return {"label": compute_class((await request.json())["features"])}


if __name__ == "__main__":
    ray.init(include_dashboard=False, num_cpus=2, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(Network.bind(), route_prefix="/predict")
    while True:
        time.sleep(1)
