"""The sources of settings: their precedence, and the errors of invalid values."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from online.plugins.encoder_tuning.settings import TuningSettings
from online.plugins.jobs.settings import JobSettings
from online.settings import SettingOrigin, load, load_with_origins, reveal


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("ONLINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    yield


def write(text: str) -> None:
    Path("online.toml").write_text(text)


def test_without_any_source_the_defaults_are_used() -> None:
    loaded = load_with_origins(None)
    assert loaded.settings.port == 8000 and set(map(str, loaded.origins.values())) == {"default"}


def test_flags_override_the_environment_the_file_and_the_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write("port = 1\nworkers = 2\nretain = 3\n")
    monkeypatch.setenv("ONLINE_PORT", "11")
    monkeypatch.setenv("ONLINE_WORKERS", "12")
    loaded = load_with_origins(None, port=21)
    settings, origins = loaded.settings, loaded.origins
    assert (settings.port, settings.workers, settings.retain, settings.max_batch) == (21, 12, 3, 64)
    assert origins["port"] == SettingOrigin("flag", "--port")
    assert origins["workers"] == SettingOrigin("environment", "ONLINE_WORKERS")
    assert origins["retain"] == SettingOrigin("file", "online.toml")
    assert origins["max_batch"] == SettingOrigin("default")


def test_every_kind_of_value_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLINE_MODELS", '[{"name": "vec", "kind": "classifier", "options": {"size": 2}}]')
    monkeypatch.setenv("ONLINE_JOB_FOLDERS", '["/a", "/b"]')
    monkeypatch.setenv("ONLINE_ENCODER_ADAPT", "true")
    monkeypatch.setenv("ONLINE_ADMIN_KEY", "correct horse")
    monkeypatch.setenv("ONLINE_PUBLISH_EVERY_MS", "2.5")
    monkeypatch.setenv("ONLINE_STREAM", "")
    settings = load(None)
    assert settings.models[0].options == {"size": 2} and settings.part(JobSettings).job_folders == (
        Path("/a"),
        Path("/b"),
    )
    assert settings.part(TuningSettings).encoder_adapt and reveal(settings.admin_key) == "correct horse"
    assert settings.publish_every_ms == 2.5 and settings.stream is None


def test_every_setting_can_be_assigned_by_a_flag() -> None:
    assignments = ["max_waiting=4096", "device=cpu", "encoder_adapt=true", 'models=[{name="a", kind="river"}]']
    settings = load(None, assignments)
    assert (settings.max_waiting, settings.device, settings.part(TuningSettings).encoder_adapt) == (4096, "cpu", True)
    assert settings.models[0].name == "a"


def load_error(*assignments: str, **flags: object) -> str:
    with pytest.raises(ValueError) as caught:
        load(None, assignments, **flags)
    return str(caught.value)


def test_a_port_out_of_range_is_reported_with_its_flag() -> None:
    message = "--port: 99999 is out of range: use at least 0 and at most 65535 (Port to listen on; 0 takes a free one.)"
    assert load_error(port=99999) == message


def test_an_invalid_value_is_reported_with_its_variable_or_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write("retain = 1\n")
    assert load_error().startswith("online.toml: retain: 1 is out of range: use at least 2 (Number of newest")
    monkeypatch.setenv("ONLINE_RETAIN", "many")
    assert load_error().startswith("ONLINE_RETAIN: 'many' is invalid: input should be a valid integer")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "max_wating = 9",
            "online.toml: unknown setting 'max_wating'; did you mean 'max_waiting': Most instances that wait for a "
            "micro-batch, and requests that wait for an offset; further requests get status 429.",
        ),
        ("nonsense = 1", "online.toml: unknown setting 'nonsense'; `online config` lists all settings"),
        (
            "[[models]]\nname = 'a'\nkind = 'river'\ndirft = 'act'",
            "online.toml: models.0: unknown setting 'dirft'; did you mean 'drift': off; watch: report drift;",
        ),
        (
            "[[models]]\nname = 'a'\nkind = 'river'\nnothing = 1",
            "models.0: unknown setting 'nothing'; known are name, kind, options, routes, fallback, placement, drift, guard, golden_questions, share_sums, versions",
        ),
        (
            "[[models]]\nname = 'a'\nkind = 'river'\ndrift = 'forget'",
            "online.toml: models.0.drift: 'forget' is invalid: input should be 'off', 'watch' or 'act' (off; watch:",
        ),
        ("[[models]]\nname = 'a b'\nkind = 'river'", "models.0.name: 'a b' is not a model's name: use 1 to 64 letters"),
        ("[[models]]\nname = 'a'", "online.toml: models.0.kind: the value is invalid: field required (Kind of model"),
        ("device_memory_fraction = 2", "2 is out of range: use more than 0 and at most 1 (Largest share"),
        ("open_webui_url = 'http://x'", "open_webui_url and open_webui_key are set together, or not at all"),
    ],
)
def test_an_invalid_file_is_refused_with_the_place_and_the_remedy(text: str, message: str) -> None:
    write(text)
    assert message in load_error()


def test_each_error_is_reported_once() -> None:
    write("port = -1\nworkers = 0\n[[models]]\nname = 'a'\nkind = 'river'\nversions = 'some'\n")
    message = load_error()
    assert message.count("online.toml: ") == 3 and message.count("; online.toml: ") == 2


def test_a_secret_and_a_url_with_a_password_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLINE_ADMIN_KEY", "hunter2")
    assert "ONLINE_ADMIN_KEY: the value is invalid" in (message := load_error()) and "hunter2" not in message


def test_a_misspelt_variable_is_refused_with_a_suggestion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLINE_PROT", "9000")
    message = "unknown setting ONLINE_PROT in the environment; did you mean ONLINE_PORT: Port to listen on;"
    assert load_error().startswith(message)


def test_variables_of_other_programs_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONLINE_TEST_REDIS", "ONLINE_SHARED_DATA", "ONLINE_SERVICE_HOST", "ONLINE_PORT_8000_TCP_PROTO"):
        monkeypatch.setenv(name, "x")
    assert load(None).port == 8000


def test_the_address_of_a_kubernetes_service_is_refused_as_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLINE_PORT", "tcp://10.0.0.1:8000")
    assert "set enableServiceLinks: false" in load_error()


def test_a_variable_that_is_not_json_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONLINE_MODELS", "[oops")
    assert load_error().startswith("ONLINE_MODELS is not valid JSON: ")


def test_an_assignment_is_checked_like_the_file() -> None:
    assert load_error("port") == "--set port: write it as NAME=VALUE"
    assert load_error("prot=1").startswith("--set: unknown setting 'prot'; did you mean 'port'")
    assert load_error("port=70000").startswith("--set port: 70000 is out of range")


def test_a_file_that_is_missing_or_unreadable_is_named() -> None:
    with pytest.raises(ValueError, match=r"there is no config file at none\.toml"):
        load(Path("none.toml"))
    write("port = ")
    assert load_error().startswith("online.toml cannot be read: ")
