"""Devices over REST: what a running service has where, for operators."""

from online.plugins.devices.device_reports import DeviceReporter
from tests.conftest import Start
from tests.models.devices.fakes import FakeDevices
from tests.support import until

CONFIG = """
admin_key = "a-key-of-the-operator"
[[models]]
name = "m"
kind = "majority"
[models.placement]
learn_on = "cpu"
"""


def test_a_service_says_where_it_learns_and_answers_and_only_operators_may_ask(start: Start) -> None:
    service = start(CONFIG)
    assert service.http.get("/v1/devices").status_code == 401
    headers = {"Authorization": "Bearer a-key-of-the-operator"}

    def places() -> list[tuple[str, str, str]] | None:
        answer = service.http.get("/v1/devices", headers=headers).raise_for_status().json()
        found = sorted((each["process"], each["role"], each["device"]) for each in answer["places"])
        return found if len(found) == 2 else None

    assert until(places, what="both processes") == [("learner", "learner", "cpu"), ("worker-0", "server", "cpu")]
    answer = service.http.get("/v1/devices", headers=headers).json()
    assert answer["has_accelerator"] is False and answer["fallbacks"] == []
    assert answer["devices"][0]["cores"] >= 1
    learner = DeviceReporter(service.state, "other-learner", "learner", FakeDevices(), {})
    learner.note_sums({("m", "worker-1"): 500})
    learner.write()
    metrics = service.http.get("/metrics", headers=headers).text
    learner.close()
    assert 'online_summed_examples{by="worker-1",model="m"} 500.0' in metrics
    assert 'online_memory_fallbacks{model="m",role="learner"} 0.0' in metrics
