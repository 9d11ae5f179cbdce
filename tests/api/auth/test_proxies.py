"""Forwarding headers of a proxy that `trusted_proxies` does not list: one warning with the remedy, and no more."""

import logging

import pytest

from online.api.auth.proxies import MAX_REPORTED, TrustedProxies
from tests.conftest import Start

CHAT = '[[models]]\nname = "vec"\nkind = "classifier"\noptions = { input = "vector", size = 2 }\n'
PREDICT = "/v1/models/vec:predict"
WARNING = "forwarding headers are ignored"
BODY = {"instances": [[1, 2]]}


def test_a_proxy_that_is_not_listed_is_logged_once_with_the_remedy(start: Start) -> None:
    service = start(CHAT, open=True)
    for name in ("X-Forwarded-For", "X-Forwarded-Proto", "Forwarded"):
        for client in range(5):
            headers = {name: f"198.51.100.{client}"}
            assert service.http.post(PREDICT, json=BODY, headers=headers).status_code == 200
            assert service.http.get("/healthz", headers=headers).status_code == 200
    service.stop()
    lines = [line for line in service.output.splitlines() if WARNING in line]
    assert len(lines) == 1 and " WARNING " in lines[0]
    assert "address=127.0.0.1" in lines[0] and r"trusted_proxies = [\"127.0.0.1\"]" in lines[0]


def test_a_proxy_that_is_listed_and_a_caller_without_forwarding_headers_are_not_logged(start: Start) -> None:
    service = start(CHAT, open=True, trusted_proxies=["127.0.0.1"])
    assert service.http.get("/healthz", headers={"X-Forwarded-For": "198.51.100.7"}).status_code == 200
    service.stop()
    other = start(CHAT, open=True)
    assert other.http.get("/healthz", headers={"X-Real-IP": "198.51.100.7"}).status_code == 200
    other.stop()
    assert WARNING not in service.output + other.output


def test_callers_that_invent_forwarding_headers_fill_neither_the_log_nor_the_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    proxies = TrustedProxies(["10.0.0.0/8"])
    with caplog.at_level(logging.WARNING, "online.api"):
        for number in range(1_000):
            proxies.report_unlisted(f"198.51.{number // 250}.{number % 250}")
            proxies.report_unlisted("10.0.0.5")
            proxies.report_unlisted("not an address")
    assert len(caplog.records) == MAX_REPORTED
