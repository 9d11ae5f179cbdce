"""A cohort that declares limits of its total needs fewer bits, and merges no total beyond them."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from online.settings import ModelSettings
from tests.api.auth.access import ADMIN_KEY, browse, build
from tests.packages.online_federated.members import COHORTS, Member
from tests.serving.feedback.sums.files import OPTIONS, draw

LAB = ModelSettings(name="lab", kind="classifier", options=dict(OPTIONS))
ADMIN = {"X-Admin-Key": ADMIN_KEY}
PARAMETERS = {"classes": ["a", "b"], "size": 3, "max_examples": 10}
MEMBERS = 3


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    app = build(tmp_path_factory.mktemp("limits"), LAB, min_cohort_members=MEMBERS)
    with browse(app) as client:
        yield client


def run_cohort(client: TestClient, **limits: int) -> dict[str, Any]:
    """The cohort at its end, of three members with six examples each."""
    created = client.post(COHORTS, json={**PARAMETERS, **limits}, headers=ADMIN)
    assert created.status_code == 201, created.text
    members = [Member(client, created.json()["id"], draw(6, seed=seed), ADMIN) for seed in range(MEMBERS)]
    for round in ("join", "share", "mask", "unmask"):
        for member in members:
            assert getattr(member, round)().is_success
    ended: dict[str, Any] = client.get(f"{COHORTS}/{created.json()['id']}", headers=ADMIN).json()
    return ended


def test_a_total_within_its_limits_is_merged_in_fewer_bits(client: TestClient) -> None:
    sizes = []
    for limits in ({}, {"max_class_examples": 16, "max_negative_examples": 0, "max_mean_square": 16_000}):
        ended = run_cohort(client, **limits)
        assert (ended["state"], ended["reason"]) == ("done", None)
        sizes.append(sum(length * bits for length, bits in ended["segments"]))
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize(("name", "most"), [("max_class_examples", 4), ("max_mean_square", 3_000)])
def test_a_total_beyond_a_limit_is_not_merged(client: TestClient, name: str, most: int) -> None:
    ended = run_cohort(client, **{name: most})
    assert ended["state"] == "failed" and f"the total is beyond {name};" in ended["reason"]


def test_a_cohort_without_negative_examples_has_no_bits_for_them(client: TestClient) -> None:
    created = client.post(COHORTS, json={**PARAMETERS, "max_negative_examples": 0}, headers=ADMIN).json()
    assert [bits for _, bits in created["segments"]][2] == 0
    refused = client.post(COHORTS, json={**PARAMETERS, "max_mean_square": 127**2 + 1}, headers=ADMIN)
    assert refused.status_code == 400 and "max_mean_square" in refused.json()["error"]
