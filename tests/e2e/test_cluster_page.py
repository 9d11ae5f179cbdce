"""The cluster page in a real Chromium: the replicas with their state in words, and the empty state of a single service."""

from contextlib import closing
from functools import partial

import pytest
from playwright.sync_api import expect
from sqlalchemy import update

from online.store import Store
from online.store.replicas import REPLICAS, remove_replica
from tests.conftest import Start
from tests.e2e.browsing import Visits, check_accessible, shoot
from tests.plugins.cluster.reports import DIVERGED, report
from tests.support import until

VEC = '[[models]]\nname = "m"\nkind = "classifier"\noptions = { input = "vector", size = 2, scale = 4.0 }\n'
SECRET = "a secret of the test, long enough"


def test_a_service_on_sqlite_says_that_it_is_a_single_one(visits: Visits, start: Start) -> None:
    service = start(VEC)
    with service.client("m") as client:
        service.wait_learned("m", client.feedback([{"input": [0, 1], "label": "a"}])[0]["offset"])
    page = visits.open(f"{service.url}/learning")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Cluster").click()
    expect(page.get_by_role("heading", name="Cluster", level=1)).to_be_focused()
    main = page.get_by_role("main")
    expect(main.get_by_role("region", name="A single service")).to_contain_text("Postgres")
    expect(main.get_by_role("region", name="What answers").get_by_role("row").nth(1)).to_contain_text("m")
    expect(main.get_by_role("region", name="Replicas")).to_have_count(0)
    check_accessible(page)
    shoot(page, "cluster-single")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (860, "light"), (360, "dark")])
def test_each_replica_has_its_state_in_words_and_the_page_follows_without_a_reload(
    visits: Visits, start: Start, postgres_url: str, monkeypatch: pytest.MonkeyPatch, width: int, scheme: str
) -> None:
    monkeypatch.setenv("ONLINE_SECRET", SECRET)
    service = start(VEC, store=postgres_url)
    with service.client("m") as client:
        service.wait_learned("m", client.feedback([{"input": [0, 1], "label": "a"}])[0]["offset"])
    page = visits.open(f"{service.url}/cluster", width=width, height=900, scheme=scheme)
    replicas = page.get_by_role("region", name="Replicas")
    own = until(lambda: service.http.get("/v1/cluster").json()["replicas"], what="the report of the service")[0]["id"]
    expect(page.get_by_role("status").filter(has_text="1 replica is present.")).to_be_visible()
    expect(replicas.get_by_role("row", name=own)).to_contain_text("Up to date")

    with closing(Store(postgres_url)) as store:
        report(store, "online-1", "b" * 64, diverged=DIVERGED)
        report(store, "online-2", "c" * 64, clock_difference_s=-2.5)
        report(store, "online-3")
        long_ago = update(REPLICAS).where(REPLICAS.c.id.startswith("online-")).values(seen_at=REPLICAS.c.seen_at + 600)
        store.submit(lambda connection: connection.execute(long_ago)).result()  # so that they stay present
        absent = update(REPLICAS).where(REPLICAS.c.id == "online-3").values(seen_at=REPLICAS.c.seen_at - 1_000)
        store.submit(lambda connection: connection.execute(absent)).result()
        expect(replicas.get_by_role("row", name="online-1")).to_contain_text("Diverged")
        expect(replicas.get_by_role("row", name="online-2")).to_contain_text("Another model")
        expect(replicas.get_by_role("row", name="online-3")).to_contain_text("Absent")
        models = page.get_by_role("region", name="Models on each replica")
        expect(models.get_by_role("row", name="online-2")).to_contain_text("differs from the published one")
        expect(models.get_by_role("row", name=own)).to_contain_text("as published")
        summary = page.get_by_role("status").filter(has_text="3 replicas are present")
        expect(summary).to_contain_text("2 have another model than the published one. One is absent.")
        check_accessible(page)
        shoot(page, f"cluster-{width}")
        for number in (1, 2, 3):
            store.submit(partial(remove_replica, id=f"online-{number}")).result()
    expect(replicas.get_by_role("row", name="online-1")).to_have_count(0)
