"""While Postgres does not answer, predictions go on from the journal, and each protocol says so in a header."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import httpx
import pytest
from sqlalchemy.engine import make_url

from online.plugins.grpc.protos import tensorflow_serving_pb2 as tfs
from tests.cluster.fault_proxy import FaultProxy, LoopThread
from tests.cluster.local_cluster import target_of
from tests.conftest import Start
from tests.plugins.grpc.test_grpc import RpcClients, spec, tensor
from tests.support import Service, until

MODELS = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }

[[models]]
name = "chat"
kind = "ranker"
"""
ROW = {"instances": [[0.5, 1.0]]}
PREDICT, BY_LABEL = (
    "/v1/models/vec:predict",
    "/v1/models/vec/labels/latest:predict",
)  # answered directly, and by a route
SOON_S = 2.5  # one second between two questions, one second of patience, and the rest for a busy machine


@pytest.fixture
def link(postgres_url: str) -> Iterator[FaultProxy]:
    thread = LoopThread()
    with closing(FaultProxy(thread, target_of(make_url(postgres_url)))) as proxy:
        yield proxy
    thread.close()


@pytest.mark.parametrize("begin", [FaultProxy.refuse, FaultProxy.freeze])
def test_every_protocol_says_that_a_prediction_is_in_the_journal_only(
    start: Start, postgres_url: str, link: FaultProxy, begin: Callable[[FaultProxy], None]
) -> None:
    store = make_url(postgres_url).set(host=link.host, port=link.port).render_as_string(hide_password=False)
    service = start(MODELS, flags=("--grpc-port", "0"), store=store, restart_max_s=0.5)
    rpcs = RpcClients(service)
    assert recorded_of(service) == [None] * 6 and recorded_by_grpc(rpcs) is None
    begin(link)
    began = time.monotonic()
    until(lambda: predict(service).headers.get("X-Recorded"), 10, "header")
    assert time.monotonic() - began < SOON_S
    assert recorded_of(service) == ["journal"] * 6 and recorded_by_grpc(rpcs) == "journal"
    unrecorded = predict(service, {**ROW, "record": False})
    assert unrecorded.status_code == 200 and "X-Recorded" not in unrecorded.headers
    meanwhile = predict(service).json()["prediction_ids"][0]
    refused = give(service, meanwhile)
    assert refused.status_code == 503 and int(refused.headers["Retry-After"]) >= 1
    link.heal()
    until(lambda: "X-Recorded" not in predict(service).headers, 20, "answer without the header")
    assert recorded_of(service) == [None] * 6 and recorded_by_grpc(rpcs) is None
    until(lambda: give(service, meanwhile).status_code == 202, 20, "acknowledgement")


def recorded_of(service: Service) -> list[str | None]:
    """The header of an answer in each protocol of HTTP, of the direct path first."""
    question = {"messages": [{"role": "user", "content": "When do you open?"}], "model": "chat"}
    tensors = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [0.5, 1.0]}]}
    answers = [
        predict(service),
        service.http.post(BY_LABEL, json=ROW),
        service.http.post(PREDICT, json={"signature_name": "serving_default", **ROW}),
        service.http.post("/v2/models/vec/infer", json=tensors),
        service.http.post("/v1/chat/completions", json=question),
        service.http.post("/v1/chat/completions", json={**question, "stream": True}),
    ]
    assert [each.status_code for each in answers] == [200] * len(answers)
    return [each.headers.get("X-Recorded") for each in answers]


def recorded_by_grpc(rpcs: RpcClients) -> str | None:
    request = tfs.PredictRequest(model_spec=spec("vec"), inputs={"x": tensor([0.5, 1.0])})
    _, call = rpcs.prediction.Predict.with_call(request, timeout=60)
    value = dict(call.trailing_metadata()).get("x-recorded")
    assert value is None or isinstance(value, str)
    return value


def predict(service: Service, body: object = ROW) -> httpx.Response:
    answer = service.http.post(PREDICT, json=body)
    assert answer.status_code == 200, answer.text
    return answer


def give(service: Service, prediction_id: str) -> httpx.Response:
    feedback = [{"id": f"of-{prediction_id}", "prediction_id": prediction_id, "label": "a"}]
    return service.http.post("/v1/models/vec:feedback", json={"feedback": feedback}, timeout=60)
