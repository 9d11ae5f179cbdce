"""A signed feedback URL gives its holder nothing that the caller it was created for may not do now."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi import FastAPI
from httpx2 import Response

from online.api.auth.key_changes import create_key, revoke_key, rotate_key
from online.plugins.feedback_links.signed_urls import SignedUrls
from tests.api.auth.access import ADMIN_KEY, VEC, bearer, browse, build, new_key

OTHER = VEC.model_copy(update={"name": "other"})


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    app = build(tmp_path / "state", VEC, OTHER)
    with browse(app):
        yield app


def get_urls(app: FastAPI, headers: dict[str, str]) -> list[str]:
    body = {"instances": [[1.0, 1.0]], "feedback_urls": True}
    response = browse(app).post("/v1/models/vec:predict", json=body, headers=headers)
    assert response.status_code == 200, response.text
    urls: list[str] = response.json()["feedback_urls"]
    return urls


def label(app: FastAPI, url: str, name: str = "a") -> Response:
    return browse(app).post(url, json={"label": name})


def learn_class(app: FastAPI, name: str) -> None:
    item = {"input": [0.0, 0.0], "label": name}
    response = browse(app).post(
        "/v1/models/vec:feedback", json={"feedback": [item]}, headers={"X-Admin-Key": ADMIN_KEY}
    )
    assert response.status_code == 202, response.text


def test_a_caller_that_may_not_give_feedback_gets_no_urls(app: FastAPI) -> None:
    assert get_urls(app, bearer(new_key(app, "predict"))) == []
    assert len(get_urls(app, bearer(new_key(app, "predict", "feedback")))) == 1


def test_a_url_of_a_key_without_the_scope_teach_adds_no_class(app: FastAPI) -> None:
    learn_class(app, "known")
    (url,) = get_urls(app, bearer(new_key(app, "predict", "feedback")))
    assert label(app, url, "unheard of").status_code == 403
    assert label(app, url, "known").status_code == 202


def test_a_url_of_a_key_that_may_teach_adds_a_class(app: FastAPI) -> None:
    (url,) = get_urls(app, bearer(new_key(app, "predict", "feedback", "teach")))
    assert label(app, url, "unheard of").status_code == 202


def test_a_url_of_an_operator_adds_a_class(app: FastAPI) -> None:
    (url,) = get_urls(app, {"X-Admin-Key": ADMIN_KEY})
    assert label(app, url, "unheard of").status_code == 202


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_url_of_a_revoked_key_is_refused(app: FastAPI, method: str) -> None:
    (url,) = get_urls(app, bearer(new_key(app, "predict", "feedback", "teach", name="shop")))
    assert label(app, url).status_code == 202
    revoke_key(app.state.runtime.workspace.store, "shop")
    app.state.callers.keys.read()
    response = browse(app).request(method, url, json={"label": "a"} if method == "POST" else None)
    assert response.status_code == 403 and "its key was revoked" in response.json()["error"]


def test_a_url_outlives_the_rotation_of_its_key(app: FastAPI) -> None:
    (url,) = get_urls(app, bearer(new_key(app, "predict", "feedback", "teach", name="shop")))
    rotate_key(app.state.runtime.workspace.store, "shop", datetime.now(UTC))
    app.state.callers.keys.read()
    assert label(app, url).status_code == 202


def test_a_url_of_a_key_that_was_narrowed_is_refused(app: FastAPI) -> None:
    store = app.state.runtime.workspace.store
    (url,) = get_urls(app, bearer(new_key(app, "predict", "feedback", name="shop")))
    revoke_key(store, "shop")
    create_key(store, "shop", ["predict", "feedback"], ["other"])
    app.state.callers.keys.read()
    assert label(app, url).status_code == 403


def test_the_issuer_of_a_url_cannot_be_changed(app: FastAPI) -> None:
    (url,) = get_urls(app, bearer(new_key(app, "predict", "feedback")))
    (issuer,) = (part for part in url.split("&") if part.startswith("issuer="))
    for other in ("issuer=admin", "issuer=", "issuer=open"):
        assert label(app, url.replace(issuer, other)).status_code == 403
    assert label(app, url.replace(f"&{issuer}", "")).status_code == 403


def test_the_name_of_a_key_is_not_in_its_urls(app: FastAPI) -> None:
    (url,) = get_urls(app, bearer(new_key(app, "predict", "feedback", name="shop-7")))
    assert "shop-7" not in url


def test_a_url_without_an_issuer_rates_and_teaches_nothing_new_where_keys_are_needed(app: FastAPI) -> None:
    learn_class(app, "known")
    id = browse(app).post(
        "/v1/models/vec:predict", json={"instances": [[1.0, 1.0]]}, headers={"X-Admin-Key": ADMIN_KEY}
    ).json()["prediction_ids"][0]  # fmt: skip
    expires = 4_000_000_000
    signature = app.state.parts.find(SignedUrls).sign("vec", id, expires, "")
    url = f"/v1/models/vec/feedback?prediction_id={id}&expires={expires}&signature={signature}"
    assert label(app, url, "unheard of").status_code == 403
    assert label(app, url, "known").status_code == 202
