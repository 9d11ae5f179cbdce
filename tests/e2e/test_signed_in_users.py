"""The chat page in a real Chromium behind a real proxy that signs people in (`trusted_proxies`, `identity_header`).

page --cookie of the proxy--> nginx --X-Forwarded-User--> service
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.conftest import config
from tests.deploy.test_proxies import find_free_ports
from tests.e2e.browsing import Visits, check_accessible, shoot
from tests.e2e.test_access import button, last_reply
from tests.e2e.test_page import CHAT, ask, correct, new_answer
from tests.support import Service, skip_or_fail, until

LESSON = "Umbrellas are lent at the desk."
NGINX = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
events {{ }}
http {{
    access_log off;
    {temporary}
    server {{
        listen 127.0.0.1:{port};
        location = /sign-in {{  # a proxy such as oauth2-proxy would ask for a password first
            add_header Set-Cookie "signed_in=$arg_as; Path=/; HttpOnly; SameSite=Lax";
            return 302 /;
        }}
        location / {{
            if ($cookie_signed_in = "") {{ return 401; }}
            proxy_pass {upstream};
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-User $cookie_signed_in;
        }}
    }}
}}
"""


@contextmanager
def serve_through(folder: Path, service: Service, port: int) -> Iterator[None]:
    """Run nginx in front of the service."""
    if shutil.which("nginx") is None:
        skip_or_fail("nginx is not installed")
    parts = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{name}_temp_path {folder / name};" for name in parts)
    path = folder / "nginx.conf"
    path.write_text(NGINX.format(folder=folder, temporary=temporary, port=port, upstream=service.url))
    with (folder / "nginx.log").open("w") as log:
        process = subprocess.Popen(["nginx", "-e", "stderr", "-c", str(path)], stdout=log, stderr=log)
    try:
        until(lambda: is_open(port), what=f"the start of nginx ({folder / 'nginx.log'})")
        yield
    finally:
        process.terminate()
        process.wait(30)


def is_open(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/").status_code == 401
    except httpx.TransportError:
        return False


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of the proxy. The service behind it has a key, and knows users from the proxy alone."""
    (port,) = find_free_ports(1)
    url = f"http://127.0.0.1:{port}"
    proxied = {"trusted_proxies": ["127.0.0.1"]}
    named = {"identity_header": "X-Forwarded-User", "public_url": url, "admin_key": "open sesame"}
    service = Service(tmp_path / "state", config(tmp_path, CHAT, **proxied, **named))
    service.http.headers["X-API-Key"] = "open sesame"
    service.wait_learned("chat", 1)
    with serve_through(tmp_path, service, port):
        yield url
    service.stop()


def check_listed(conversations: Locator, question: str) -> None:
    """Check that the conversation of this question is the only one listed."""
    items = conversations.get_by_role("listitem")
    expect(items).to_have_count(1)
    expect(items).to_contain_text(question)


def test_users_that_a_proxy_has_signed_in_see_their_own_conversations_only(visits: Visits, address: str) -> None:
    ann = visits.open(f"{address}/sign-in?as=ann")
    expect(ann.get_by_role("banner")).to_contain_text("ann")
    expect(button(ann.get_by_role("banner"), "Sign in")).to_have_count(0)
    with ann.expect_request("**/*:predict") as predicted:
        ask(ann, "When do you open?")
    assert '"user"' not in (predicted.value.post_data or "") and "x-user" not in predicted.value.headers
    button(last_reply(ann), "Good reply").click()
    expect(last_reply(ann).get_by_role("status")).to_contain_text("Learned")
    shoot(ann, "users-ann")
    check_accessible(ann)

    ben = visits.open(f"{address}/sign-in?as=ben", width=360, scheme="dark")
    ask(ben, "Is there wifi?")
    ben.reload()
    expect(last_reply(ben)).to_contain_text("The network is called Guest.")
    button(ben, "Conversations").click()  # a dialog on a narrow screen
    check_listed(ben.get_by_role("dialog"), "Is there wifi?")
    ben.keyboard.press("Escape")
    own_page = ben.url
    ben.goto(ann.url)
    expect(ben.get_by_role("alert")).to_contain_text("it belongs to another person or browser")
    expect(ben.get_by_text("When do you open?")).to_have_count(0)
    shoot(ben, "users-ben-dark")
    check_accessible(ben)

    ann.reload()
    check_listed(ann.get_by_role("navigation", name="Conversations"), "When do you open?")
    again = visits.open(f"{address}/sign-in?as=ben")
    again.goto(own_page)
    expect(last_reply(again)).to_contain_text("The network is called Guest.")
    assert [name for page in (ann, ben, again) for name in cookies(page)] == ["signed_in"] * 3


def cookies(page: Page) -> list[str]:
    return [each.get("name", "") for each in page.context.cookies()]


@pytest.mark.long
def test_what_a_signed_in_user_teaches_is_given_to_the_others(visits: Visits, address: str) -> None:
    ann = visits.open(f"{address}/sign-in?as=ann")
    ask(ann, "Do you lend umbrellas?")
    reply = last_reply(ann)
    if button(reply, "Wrong reply").count():
        button(reply, "Wrong reply").click()
    correct(reply, LESSON)
    expect(new_answer(reply)).to_contain_text(LESSON)
    ben = visits.open(f"{address}/sign-in?as=ben")
    ask(ben, "Do you lend umbrellas?")
    expect(last_reply(ben)).to_contain_text(LESSON)


@pytest.mark.long
def test_the_proxy_alone_says_who_a_user_is(address: str) -> None:
    named = {"X-Forwarded-User": "ann", "X-User": "ann"}
    session = httpx.get(f"{address}/v1/session", headers={**named, "Cookie": "signed_in=ben"}).json()
    assert session["caller"] == "user:ben"
    assert httpx.get(f"{address}/v1/session", headers=named).status_code == 401
