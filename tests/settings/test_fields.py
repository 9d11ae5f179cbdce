"""The table of settings: its help, its secrets, and its validation."""

import json

import pytest
from pydantic import ValidationError

from online.plugins.alerts.settings import AlertSettings
from online.settings import GoldenQuestionSettings, ModelSettings, Settings, reveal
from online.settings import fields as module

KEY = "correct horse"


def test_every_setting_has_a_line_of_help() -> None:
    for table in (Settings, ModelSettings, GoldenQuestionSettings):
        for name, field in table.model_fields.items():
            assert field.description and field.description.endswith("."), name


@pytest.mark.parametrize(("ending", "unit"), [("_s", "econds"), ("_ms", "milliseconds"), ("_bytes", "bytes")])
def test_the_help_names_the_unit(ending: str, unit: str) -> None:
    for name, field in Settings.model_fields.items():
        if name.endswith(ending):
            assert unit in str(field.description) or "time" in str(field.description), name


def test_a_model_adapts_unless_its_table_says_otherwise() -> None:
    assert ModelSettings(name="m", kind="classifier").drift == "act"
    assert ModelSettings(name="m", kind="classifier", drift="watch").drift == "watch"


def test_the_constructor_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLINE_PORT", "9999")
    assert Settings().port == 8000


def test_secrets_are_hidden_wherever_settings_are_printed() -> None:
    settings = Settings.model_validate({"admin_key": KEY, "open_webui_url": "http://x", "open_webui_key": KEY})
    for text in (repr(settings), str(settings), settings.model_dump_json(), str(settings.model_dump())):
        assert KEY not in text


def test_a_child_process_receives_the_secrets() -> None:
    settings = Settings.model_validate({"admin_key": KEY})
    received = Settings.model_validate_json(settings.dump_with_secrets())
    assert received == settings and reveal(received.admin_key) == KEY


def test_a_secret_that_is_not_set_is_null() -> None:
    assert json.loads(Settings().dump_with_secrets())["admin_key"] is None and reveal(None) is None


def test_a_short_secret_is_refused_without_being_shown() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"admin_key": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_texts_that_expire_and_encoders_that_need_them_exclude_each_other() -> None:
    assert Settings(event_retention_days=30).event_retention_days == 30
    with pytest.raises(ValidationError, match="encoder_adapt and event_retention_days exclude each other"):
        Settings.model_validate({"event_retention_days": 30, "encoder_adapt": True})


def test_golden_questions_are_accepted_under_their_old_name() -> None:
    question = {"input": [1.0], "answer": "up"}
    table = {"name": "m", "kind": "classifier", "canaries": [question]}
    assert ModelSettings.model_validate(table).golden_questions == (GoldenQuestionSettings(input=[1.0], answer="up"),)


def test_both_names_of_golden_questions_at_once_are_refused() -> None:
    with pytest.raises(ValidationError, match="canaries"):
        ModelSettings.model_validate({"name": "m", "kind": "classifier", "canaries": [], "golden_questions": []})


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgres_is_reached_through_psycopg(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: object())
    assert Settings(store=f"{scheme}://u@h/db").store_url == "postgresql+psycopg://u@h/db"


def test_a_postgres_url_without_the_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(
        ValidationError, match=r"'psycopg' for Postgres is not installed: pip install 'online\[postgres\]'"
    ):
        Settings(store="postgresql://u@h/db")


def test_webhooks_are_urls_that_children_receive_and_nobody_else_sees() -> None:
    hook = "https://chat.example.com/hooks/token-of-ours"
    settings = Settings.model_validate({"alert_webhooks": [hook], "alert_secret": "sixteen characters"})
    assert "token-of-ours" not in repr(settings) + settings.model_dump_json() + str(settings.model_dump())
    received = Settings.model_validate_json(settings.dump_with_secrets())
    assert [each.get_secret_value() for each in received.part(AlertSettings).alert_webhooks] == [hook]


@pytest.mark.parametrize(
    "webhook",
    [
        "chat.example.com/token-of-ours",
        "file:///token-of-ours",
        "https://",
        "https://a b/token-of-ours",
        "https://user:token-of-ours@host/",
    ],
)
def test_what_is_no_url_of_a_webhook_is_refused_without_being_shown(webhook: str) -> None:
    with pytest.raises(ValidationError, match=r"webhook 1 is no URL such as") as failure:
        Settings.model_validate({"alert_webhooks": [webhook]})
    assert "token-of-ours" not in str(failure.value)
