"""The command line as a person meets it: help, clear refusals, exit statuses."""

import json
import os
import socket
import stat
from pathlib import Path

import pytest

from online.cli import chosen
from online.errors import SetupError
from online.models.encoder import adapts
from online.settings import Settings
from tests.conftest import Start, config
from tests.support import run_online


def test_help_names_every_verb() -> None:
    text = run_online("--help").stdout
    for verb in ("serve", "learn", "replay", "evaluate", "log", "versions", "rollback", "openapi"):
        assert verb in text


def test_a_port_that_is_taken_is_said_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        done = run_online("serve", "--state", str(tmp_path / "state"), "--port", port)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert not (tmp_path / "state").exists() and "Traceback" not in done.stderr


def test_a_state_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    done = run_online("serve", "--state", str(tmp_path / "state"), "--port", "0")
    assert done.returncode == 2 and "is not writable" in done.stderr and "--state" in done.stderr


def test_a_state_folder_that_is_not_writable_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "sealed"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if os.access(folder, os.W_OK):
        folder = Path("/proc/online-state")  # root writes anywhere but here
    done = run_online("serve", "--state", str(folder / "state"), "--port", "0")
    assert done.returncode == 2 and "is not writable" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("port = 'x'", "port"),
        ("nonsense = 1", "nonsense"),
        ("port = ", "cannot be read"),
        ("[[models]]\nname = 'a b'\nkind = 'ranker'", "letters, digits"),
        ("[[models]]\nname = 'a'\nkind = 'oracle'", "kind"),
        ("[[models]]\nname = 'a'\nkind = 'ranker'\n[[models]]\nname = 'a'\nkind = 'ranker'", "share a name"),
        ("[[models]]\nname = 'a'\nkind = 'classifier'\noptions = { input = 'vector' }", "size"),
        ("[[models]]\nname = 'a'\nkind = 'classifier'\noptions = { colour = 'red' }", "unknown option 'colour'"),
        ("[[models]]\nname = 'a'\nkind = 'river'\noptions = { estimator = 'tree.Oak' }", "river has no 'tree.Oak'"),
        ('open_webui_url = "http://x"', "open_webui_url and open_webui_key are set together, or not at all"),
        ('langfuse_secret_key = "x"', "langfuse_public_key and langfuse_secret_key are set together, or not at all"),
        ('public_url = "example.org"', "public_url"),
    ],
)
def test_a_config_that_cannot_be_meant_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "online.toml"
    path.write_text(text)
    port = () if text.startswith("port") else ("--port", "0")  # whoever has the default one is not asked
    done = run_online("serve", "--state", str(tmp_path / "state"), "--config", str(path), *port)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_a_missing_config_and_a_missing_state_are_said(tmp_path: Path) -> None:
    assert "no config file" in run_online("serve", "--config", str(tmp_path / "none.toml")).stderr
    assert "no state folder" in run_online("versions", "--state", str(tmp_path / "none")).stderr


def test_a_store_that_cannot_be_reached_is_said(tmp_path: Path) -> None:
    url = "postgresql+psycopg://somebody:hunter2@127.0.0.1:1/none"
    done = run_online("serve", "--state", str(tmp_path / "state"), "--port", "0", "--store", url)
    assert done.returncode == 2 and "cannot be opened" in done.stderr and "hunter2" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.jsonl", "--model", "classifier"), "there is no file"),
        (("river:Nothing", "--model", "classifier"), "river has no dataset 'Nothing'"),
        (("river:TrumpApproval", "--model", "classifier"), "replay it with --model regressor"),
        (("river:Phishing", "--model", "oracle"), "unknown model kind 'oracle'"),
        (("river:Phishing", "--model", "ranker"), "a ranker replays a log"),
        (("river:Phishing", "--model", "classifier", "--option", "x"), "NAME=VALUE"),
        (("river:Phishing", "--model", "classifier", "--option", "x=1"), "unknown option 'x'"),
        (("river:Phishing", "--model", "classifier", "--device", "cuda"), "no CUDA device"),
        (("river:Phishing", "--model", "classifier", "--device", "tpu"), "'tpu' is not one of"),
        (("river:Phishing", "--model", "classifier", "--drift", "forget"), "'forget' is not one of"),
    ],
)
def test_a_replay_that_cannot_be_meant_says_why(arguments: tuple[str, ...], words: str) -> None:
    import torch

    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    done = run_online("replay", *arguments)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_versions_and_roll_back_from_the_command_line(start: Start, tmp_path: Path) -> None:
    vector = '[[models]]\nname = "vec"\nkind = "classifier"\noptions = { input = "vector", size = 2, scale = 1.0 }\n'
    service = start(vector, durable_every_s=0.05)
    client = service.client("vec")
    for n in range(2):
        receipt = client.feedback([{"input": [n, n], "label": f"l{n}"}])[0]
        client.wait_until_learned(receipt["offset"], 60)
    flags = ["--state", str(tmp_path / "state"), "--config", str(tmp_path / "state.toml")]
    listed = json.loads(run_online("versions", *flags, "--json").stdout)["versions"]
    keys = {"version", "parent", "learned_until", "created_at", "state_sha256", "weights_sha256", "metrics", "live"}
    assert keys <= set(listed[0])
    done = run_online("rollback", "1", *flags)
    assert done.returncode == 0 and "answers from version 1" in done.stdout
    for name, data in client.events(60):
        if name == "rolled_back" or data["version"] == "1":
            break
    assert client.predict([[0, 0]])["model_version"] == "1"
    assert "no version 99" in run_online("rollback", "99", *flags).stderr


def test_a_second_learner_on_one_state_is_refused(start: Start, tmp_path: Path) -> None:
    service = start('[[models]]\nname = "rv"\nkind = "river"\n')
    service.client("rv").events(60)
    service.wait_learned("rv", 0)
    from tests.support import until

    until(service.learner_pid)
    done = run_online("learn", "--state", str(tmp_path / "state"), "--config", str(tmp_path / "state.toml"))
    assert done.returncode == 2 and "another learner is at work" in done.stderr


def test_a_repertoire_with_a_bad_line_names_the_line(tmp_path: Path) -> None:
    text = config(tmp_path, '[[models]]\nname = "chat"\nkind = "ranker"\n')
    (tmp_path / "repertoire.jsonl").write_text('{"text": "fine"}\nnot json\n')
    (tmp_path / "online.toml").write_text(text)
    flags = ["--state", str(tmp_path / "state"), "--config", str(tmp_path / "online.toml"), "--port", "0"]
    done = run_online("serve", *flags)
    assert done.returncode == 2 and "line 2" in done.stderr and "Traceback" not in done.stderr


def test_a_stream_that_is_no_redis_url_and_a_missing_repertoire_are_said(tmp_path: Path) -> None:
    flags = ["--state", str(tmp_path / "state"), "--port", "0"]
    done = run_online("serve", *flags, "--stream", "http://example.org")
    assert done.returncode == 2 and "must be a redis:// URL" in done.stderr
    (tmp_path / "online.toml").write_text('repertoire = "nowhere.jsonl"')
    done = run_online("serve", *flags, "--config", str(tmp_path / "online.toml"))
    assert done.returncode == 2 and "nowhere.jsonl cannot be read" in done.stderr


def test_of_several_models_the_only_one_that_fits_is_meant_and_otherwise_it_must_be_said(tmp_path: Path) -> None:
    shipped = Settings(state=tmp_path)
    assert chosen(shipped, None, lambda spec: adapts(spec.kind, spec.options)) == "chat"
    assert chosen(shipped, "digits") == "digits"
    with pytest.raises(SetupError, match="say which model with --model: chat, digits"):
        chosen(shipped, None)
