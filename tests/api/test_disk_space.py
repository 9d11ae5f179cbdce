"""Below the floor of free disk space predictions go on unrecorded, and what would be appended is refused."""

import grpc
import pytest

from online.errors import InsufficientStorage
from online.plugins.grpc.protos import online_pb2 as ours
from online.plugins.grpc.protos import tensorflow_serving_pb2 as tfs
from online.serving.disk_space import DiskSpace, DiskUsage
from online.telemetry import Metrics
from tests.conftest import Start
from tests.plugins.grpc.test_grpc import RpcClients, numbers, spec, tensor

MODELS = """
[[models]]
name = "chat"
kind = "ranker"

[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
MORE_THAN_ANY_DISK = 2**62
ROW = {"instances": [[0.5, 1.0]]}
THUMB = {"feedback": [{"input": [0.5, 1.0], "label": "a"}]}


def test_a_full_disk_stops_recording_and_not_answering(start: Start) -> None:
    service = start(MODELS, flags=("--grpc-port", "0"), min_free_bytes=MORE_THAN_ANY_DISK)
    http = service.http

    answer = http.post("/v1/models/chat:predict", json={"instances": ["When do you open?"]})
    assert answer.status_code == 200 and answer.headers["X-Recorded"] == "false"
    assert answer.json()["predictions"][0]["reply"]["id"] == "hours"
    assert answer.json()["prediction_ids"] == [] and answer.json()["feedback_urls"] == []
    unasked = http.post("/v1/models/vec:predict", json={**ROW, "record": False})
    assert unasked.status_code == 200 and "X-Recorded" not in unasked.headers

    tensors = http.post("/v1/models/vec:predict", json={"signature_name": "serving_default", **ROW})
    assert tensors.headers["X-Recorded"] == "false" and "X-Prediction-Ids" not in tensors.headers
    chat = http.post(
        "/v1/chat/completions", json={"model": "chat", "messages": [{"role": "user", "content": "When do you open?"}]}
    )
    assert chat.status_code == 200 and "X-Feedback-Url" not in chat.headers and "feedback_url" not in chat.json()

    refused = http.post("/v1/models/vec:feedback", json=THUMB)
    assert refused.status_code == 507 and "min_free_bytes" in refused.json()["error"]
    assert http.post("/v1/models/chat/replies", json={"text": "No.", "examples": ["Yes?"]}).status_code == 507
    assert http.post("/v1/replays?name=log.jsonl", content=b"{}").status_code == 507
    assert http.delete("/v1/models/vec/users/ada").status_code == 202  # erasing makes room

    ready = http.get("/readyz")
    assert ready.status_code == 200 and "min_free_bytes" in ready.json()["disk"]
    assert "online_disk_is_short 1.0" in http.get("/metrics").text

    rpcs = RpcClients(service)
    _, call = rpcs.prediction.Predict.with_call(
        tfs.PredictRequest(model_spec=spec("vec"), inputs={"x": tensor([0.5, 1.0])}), timeout=60
    )
    trailing = dict(call.trailing_metadata())
    assert trailing["x-recorded"] == "false" and "x-prediction-ids" not in trailing
    request = ours.GiveRequest(model="vec", feedback=[ours.Item(input=numbers([0.5, 1.0]), label="a")])
    with pytest.raises(grpc.RpcError) as error:
        rpcs.feedback.Give(request, timeout=60)
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_everything_goes_on_once_there_is_room_again() -> None:
    spaces = [DiskUsage(99, 1_000), DiskUsage(101, 1_000), DiskUsage(100, 1_000), DiskUsage(99, 1_000)]
    disk = DiskSpace(lambda: spaces.pop(0), 100, Metrics())
    assert disk.is_short
    with pytest.raises(InsufficientStorage, match=r"99 free bytes, less than 100 \(min_free_bytes\)"):
        disk.check_room()
    disk.check()
    assert not disk.is_short and disk.reason is None
    disk.check_room()
    disk.check()
    assert not disk.is_short
    disk.check()
    assert disk.is_short


@pytest.mark.parametrize(
    ("floor", "space", "is_short"),
    [
        (None, DiskUsage(499_999_999, 10**12), True),
        (None, DiskUsage(500_000_000, 10**12), False),
        (None, DiskUsage(6_000_000, 64_000_000), True),
        (None, DiskUsage(7_000_000, 64_000_000), False),
        (0, DiskUsage(0, 10**12), False),
    ],
)
def test_the_floor_is_half_a_gigabyte_or_a_tenth_of_a_small_disk(
    floor: int | None, space: DiskUsage, is_short: bool
) -> None:
    assert DiskSpace(lambda: space, floor, Metrics()).is_short is is_short


def test_a_disk_that_cannot_be_measured_counts_as_one_with_room() -> None:
    def measure() -> DiskUsage:
        raise OSError("stale file handle")

    assert not DiskSpace(measure, 100, Metrics()).is_short
