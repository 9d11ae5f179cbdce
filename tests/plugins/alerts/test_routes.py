"""Alerts of a running service: a stopped learner reaches a webhook, and the routes and the command that test it."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.api.auth.access import ADMIN_KEY, VEC, bearer, browse, build, new_key
from tests.conftest import Start
from tests.plugins.alerts.receiver import receive
from tests.support import run_online, until

SMALL = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
SECRET = "sixteen characters or more"


@pytest.mark.long
def test_a_learner_that_keeps_dying_is_told_to_a_webhook_and_shown(start: Start) -> None:
    with receive() as receiver:
        service = start(SMALL, alert_webhooks=[receiver.url], alert_secret=SECRET, restart_max_s=600)

        def kill_again() -> bool:
            """Each start follows after twice the time, so that soon it is down for two looks."""
            if (pid := service.learner_pid()) is not None and f"pid={pid}" not in killed:
                killed.add(f"pid={pid}")
                os.kill(pid, signal.SIGKILL)
            return bool(receiver.received)

        killed = set[str]()
        until(kill_again, 60, "the alert")
        body = json.loads(receiver.received[0].body)
        assert (body["event"], body["model"]) == ("learner", None)
        assert body["sentence"].startswith("The learner does not run: it ended with status")
        alerts = until(
            lambda: (
                (found := service.http.get("/v1/models/vec/alerts").json())["endpoints"][0]["delivered_at"] and found
            )
        )
        assert alerts["is_signed"] and alerts["alerts"][-1]["id"] == body["id"]
        assert 'online_alert_deliveries_total{outcome="delivered"}' in service.http.get("/metrics").text
        assert "secret-token" not in service.output + json.dumps(alerts)


def test_an_operator_sends_a_test_and_reads_what_was_said(tmp_path: Path) -> None:
    with receive() as receiver:
        app = build(tmp_path, VEC, alert_webhooks=[receiver.url])
        with browse(app) as client:
            operator = bearer(new_key(app, "operate"))
            [tested] = client.post("/v1/models/vec/alerts:test", headers=operator).json()["endpoints"]
            assert (tested["status"], tested["error"], tested["answer"]) == (200, None, "ok")
            receiver.statuses = [404]
            [tested] = client.post("/v1/models/vec/alerts:test", headers=operator).json()["endpoints"]
            assert (tested["status"], tested["error"]) == (404, "status 404")
            assert client.post("/v1/models/none/alerts:test", headers=operator).status_code == 404
            assert json.loads(receiver.received[0].body)["model"] == "vec"


def test_without_a_webhook_a_test_says_what_to_set(tmp_path: Path) -> None:
    with browse(build(tmp_path, VEC)) as client:
        answer = client.post("/v1/models/vec/alerts:test", headers=bearer(ADMIN_KEY))
        assert answer.status_code == 400 and "set alert_webhooks" in answer.json()["error"]
        assert client.get("/v1/models/vec/alerts", headers=bearer(ADMIN_KEY)).json()["endpoints"] == []


def test_the_command_tells_what_each_endpoint_said(tmp_path: Path) -> None:
    with receive() as receiver:
        (tmp_path / "online.toml").write_text(f'alert_webhooks = ["{receiver.url}"]\n')
        found = run_online("alerts", "test", "--config", str(tmp_path / "online.toml"))
        assert found.returncode == 0 and "/…: accepted" in found.stdout and "secret-token" not in found.stdout
        receiver.statuses = [500]
        assert run_online("alerts", "test", "--config", str(tmp_path / "online.toml")).returncode == 1
