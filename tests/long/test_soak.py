"""Thousands of requests to one service: none fails, and neither the service nor its learner uses more and more memory."""

from pathlib import Path

from tests.conftest import Start
from tests.e2e.test_survival import VECTOR, items
from tests.support import Service, until

ROUNDS, WARM_UP = 2_000, 500
GROWTH_MB = 48


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


def memory_mb(service: Service) -> tuple[float, float]:
    return resident_mb(service.process.pid), resident_mb(until(service.learner_pid))


def test_memory_does_not_grow_over_thousands_of_rounds(start: Start) -> None:
    service = start(VECTOR)
    stream, before = items(25), (0.0, 0.0)
    for number in range(ROUNDS):
        if number == WARM_UP:
            before = memory_mb(service)
        feedback = [{"input": item["input"], "label": item["label"]} for item in stream]
        response = service.http.post("/v1/models/vec:feedback", json={"feedback": feedback})
        assert response.status_code == 202, response.text
        prediction = service.http.post("/v1/models/vec:predict", json={"instances": [item["input"] for item in stream]})
        assert prediction.status_code == 200, prediction.text
    service.wait_learned("vec", ROUNDS * len(stream), 300)
    after = memory_mb(service)
    assert after[0] - before[0] < GROWTH_MB and after[1] - before[1] < GROWTH_MB, (before, after)
    assert service.stop() == 0
