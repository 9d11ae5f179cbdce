"""The proxies of deploy/, as real processes in front of a real service: everything works through them, nobody is local."""

import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.test_tls import create_certificate
from tests.conftest import config
from tests.support import Service, skip_or_fail, until

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "chat.example.com"
CHAT = '[[models]]\nname = "chat"\nkind = "ranker"\n'
OPEN = "When do you open?"


def find_free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def replace_all(text: str, *pairs: tuple[str, str]) -> str:
    """Replace each first text by the second. Each must be in the file, so that the test runs what is shipped."""
    for shipped, here in pairs:
        assert shipped in text, shipped
        text = text.replace(shipped, here)
    return text


def nginx_command(folder: Path, upstream: str, http: int, https: int, pair: tuple[Path, Path]) -> list[str]:
    shipped = (DEPLOY / "nginx" / "nginx.conf").read_text()
    for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
        shipped = shipped.replace("http {\n", f"http {{\n    {name}_temp_path {folder / name};\n", 1)
    here = replace_all(
        shipped,
        ("pid /run/nginx.pid;", f"pid {folder}/nginx.pid;\ndaemon off;"),
        ("worker_processes auto;", "worker_processes 1;"),
        ("server 127.0.0.1:8000;", f"server {upstream};"),
        ("listen 80;", f"listen 127.0.0.1:{http};"),
        ("listen 443 ", f"listen 127.0.0.1:{https} "),
        ("/etc/ssl/online/fullchain.pem", str(pair[0])),
        ("/etc/ssl/online/privkey.pem", str(pair[1])),
    )
    (folder / "nginx.conf").write_text(here)
    return ["nginx", "-e", "stderr", "-c", str(folder / "nginx.conf")]


def caddy_command(folder: Path, upstream: str, http: int, https: int, pair: tuple[Path, Path]) -> list[str]:
    here = replace_all(
        (DEPLOY / "caddy" / "Caddyfile").read_text(),
        ("grace_period 10s", f"grace_period 1s\n\tadmin off\n\thttp_port {http}\n\thttps_port {https}"),
        (f"{NAME} {{", f"{NAME} {{\n\tbind 127.0.0.1\n\ttls {pair[0]} {pair[1]}"),
        ("reverse_proxy 127.0.0.1:8000", f"reverse_proxy {upstream}"),
    )
    (folder / "Caddyfile").write_text(here)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


class Proxy:
    """A running proxy. `client` speaks to it as a browser elsewhere does that knows the service by its name."""

    def __init__(self, command: Callable[..., list[str]], folder: Path, service: Service) -> None:
        folder.mkdir()
        certificate = create_proxy_certificate(folder)
        self.http, self.https = find_free_ports(2)
        upstream = service.url.removeprefix("http://")
        log = (folder / "log").open("w")
        self.process = subprocess.Popen(
            command(folder, upstream, self.http, self.https, certificate), stderr=log, stdout=log, cwd=folder
        )
        self.tls = ssl.create_default_context(cafile=str(certificate[0]))
        self.client = httpx.Client(
            base_url=f"https://127.0.0.1:{self.https}",
            headers={"Host": NAME},
            verify=self.tls,
            timeout=30,
        )
        self.client.event_hooks["request"] = [lambda request: request.extensions.update(sni_hostname=NAME)]
        until(self._answers, what=f"the start of the proxy ({folder / 'log'})")

    def _answers(self) -> bool:
        assert self.process.poll() is None, "the proxy has ended"
        try:
            return self.client.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(30)


def read_settings() -> dict[str, Any]:
    """The settings that both files tell their readers to set."""
    found = [
        tomllib.loads("\n".join(re.findall(r"^#     (\w+ = .*)$", (DEPLOY / name).read_text(), re.MULTILINE)))
        for name in ("nginx/nginx.conf", "caddy/Caddyfile")
    ]
    assert found[0] == found[1] and found[0]["public_url"] == f"https://{NAME}"
    return found[0]


def create_proxy_certificate(folder: Path) -> tuple[Path, Path]:
    return create_certificate(folder, "proxy", NAME)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("behind")
    running = Service(folder / "state", config(folder, CHAT, open=True, **read_settings()))
    running.wait_learned("chat", 1)
    yield running
    running.stop()


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def proxy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, service: Service
) -> Iterator[Proxy]:
    if shutil.which(request.param) is None:
        skip_or_fail(f"{request.param} is not installed")
    command = {"nginx": nginx_command, "caddy": caddy_command}[request.param]
    running = Proxy(command, tmp_path_factory.mktemp("proxy") / request.param, service)
    yield running
    running.stop()


def ask(proxy: Proxy) -> dict[str, Any]:
    body = {"instances": [OPEN], "feedback_urls": True}
    answer: dict[str, Any] = proxy.client.post("/v1/models/chat:predict", json=body).json()
    return answer


def test_a_prediction_and_a_thumb_pass(proxy: Proxy) -> None:
    answer = ask(proxy)
    (url,) = answer["feedback_urls"]
    assert answer["predictions"][0]["reply"]["id"] == "hours" and url.startswith(f"https://{NAME}/v1/models/chat/")
    thumb = proxy.client.post(url.removeprefix(f"https://{NAME}"), json={"reward": 1})
    assert thumb.status_code == 202


def test_the_page_passes_and_browsers_are_told_to_stay_on_tls(proxy: Proxy) -> None:
    page = proxy.client.get("/")
    assert page.status_code == 200 and "<html" in page.text
    assert page.headers["strict-transport-security"] == "max-age=31536000"
    script = re.search(r'src="(?:\./|/)?([^"]+\.js)"', page.text)
    assert script is None or proxy.client.get(f"/{script[1]}").status_code == 200


def test_events_arrive_when_they_happen(proxy: Proxy) -> None:
    """A proxy that buffered would hold the first event until the stream ends."""
    with proxy.client.stream("GET", "/v1/models/chat/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: status" and json.loads(next(lines).removeprefix("data: "))["learner"]


def test_completions_are_streamed(proxy: Proxy) -> None:
    body = {"model": "chat", "messages": [{"role": "user", "content": OPEN}], "stream": True}
    with proxy.client.stream("POST", "/v1/chat/completions", json=body) as stream:
        assert [line for line in stream.iter_lines() if line][-1] == "data: [DONE]"


def test_a_request_through_the_proxy_is_never_local(proxy: Proxy) -> None:
    for headers in ({}, {"Forwarded": "for=127.0.0.1"}, {"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1"}):
        refused = proxy.client.post("/v1/models/chat:freeze", json={}, headers=headers)
        assert refused.status_code in (401, 403)


def test_a_body_is_limited_before_it_reaches_the_service_and_a_log_may_be_larger(proxy: Proxy) -> None:
    large = b"x" * 5_000_000
    assert proxy.client.post("/v1/models/chat:predict", content=large).status_code == 413
    assert proxy.client.post("/v1/replays", content=large).status_code != 413


def test_a_body_is_refused_by_its_length_without_asking_the_service(proxy: Proxy) -> None:
    """The service would refuse it too, but a proxy that is sending a body when the answer comes may lose the answer."""
    head = f"POST /v1/models/chat:predict HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 5000000\r\n\r\n"
    address = ("127.0.0.1", proxy.https)
    with socket.create_connection(address, 30) as plain, proxy.tls.wrap_socket(plain, server_hostname=NAME) as secure:
        secure.sendall(head.encode())
        response = http.client.HTTPResponse(secure)
        response.begin()
        assert response.status == 413 and b"max_body_bytes" not in response.read()


@pytest.mark.parametrize(("path", "header"), [("/healthz", "x" * 100_000), (f"/healthz?{'x' * 60_000}", "")])
def test_a_long_request_line_or_header_is_refused_in_front_of_the_service(proxy: Proxy, path: str, header: str) -> None:
    assert proxy.client.get(path, headers={"X-Long": header}).status_code in (400, 414, 431)
    assert proxy.client.get("/healthz", headers={"X-Long": "x" * 7_000}).status_code == 200


def test_http_leads_to_https_and_another_name_nowhere(proxy: Proxy) -> None:
    plain = httpx.get(f"http://127.0.0.1:{proxy.http}/some?x=1", headers={"Host": NAME})
    assert plain.status_code in (301, 308) and plain.headers["location"].startswith(f"https://{NAME}")
    assert read_as(proxy, "evil.example.com") == ""


def read_as(proxy: Proxy, host: str) -> str:
    """What the proxy answers to a request for another host, if anything."""
    try:
        return httpx.get(f"https://127.0.0.1:{proxy.https}/healthz", verify=False, headers={"Host": host}).text
    except httpx.TransportError:
        return ""
