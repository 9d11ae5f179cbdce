"""By default, the guard acts on what callers said that are not trusted, and lets a changed world be learned."""

from collections.abc import Sequence

import numpy as np
import pytest

from online.client import Client
from tests.api.rest.test_versions import VEC, quarantines, teach
from tests.conftest import Start
from tests.support import Service, until

UNLIMITED = """
admin = "local"
feedback_per_hour = 100000
influence_per_reply = 100000
new_influence_per_reply = 100000
new_influence = 100000
"""
POINTS = np.random.default_rng(7).uniform(-1, 1, (600, 2)).tolist()


def label(service: Service, key: str | None, points: Sequence[Sequence[float]], flipped: bool) -> None:
    """Give the right label of each point, or the other one."""
    with Client(service.url, "vec", key=key) as client:
        for x, y in points:
            answer = client.predict([[x, y]])
            client.label(answer["prediction_ids"][0], "up" if (x > y) != flipped else "down")


def drift_alarms(service: Service) -> list[object]:
    return [each for each in service.http.get("/v1/models/vec/drift").json()["drift"] if each["what"] == "loss"]


@pytest.mark.parametrize(
    "scopes",
    [["predict", "feedback"], pytest.param(["predict", "feedback", "teach", "curate"], marks=pytest.mark.long)],
)
def test_the_guard_sets_apart_the_lies_of_callers_and_learns_a_change_that_curators_report(
    start: Start, scopes: list[str]
) -> None:
    service = start(UNLIMITED + VEC)
    made = service.http.post("/v1/keys", json={"name": "caller", "scopes": scopes}).raise_for_status()
    key, is_trusted = made.json()["key"], "curate" in scopes
    teach(service, "up")
    teach(service, "down")
    label(service, key, POINTS[:300], flipped=False)
    for begin in range(300, 600, 20):
        label(service, key, POINTS[begin : begin + 20], flipped=True)
        if drift_alarms(service):
            break
    until(lambda: drift_alarms(service), what="an alarm")
    if is_trusted:
        assert not quarantines(service)
        assert service.http.get("/v1/models/vec/versions").json()["frozen"] is None
        teach(service, "up")  # learning goes on
    else:
        frozen = until(lambda: service.http.get("/v1/models/vec/versions").json()["frozen"], what="freezing")
        assert "the guard" in frozen["reason"]
        assert quarantines(service)[0]["until"] is None
