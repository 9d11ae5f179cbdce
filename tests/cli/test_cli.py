"""The command line: error messages, exit statuses, and commands on a running service."""

import json
import os
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from online import __version__
from online.cli.state import select_model
from online.errors import SetupError
from online.models import can_tune_encoder
from online.settings import Settings
from tests.conftest import Start, config
from tests.preload import launcher
from tests.support import first_of, run_online, until

VECTOR = '[[models]]\nname = "vec"\nkind = "classifier"\noptions = { input = "vector", size = 2, scale = 1.0 }\n'


def test_the_help_names_every_command_and_the_version_is_printed() -> None:
    text = run_online("--help").stdout
    for command in ("serve", "learn", "replay", "evaluate", "log", "versions", "rollback", "config", "openapi"):
        assert command in text
    assert run_online("--version").stdout == f"online {__version__}\n"


def test_a_port_out_of_range_is_refused_with_the_name_of_its_option(tmp_path: Path) -> None:
    process = run_online("serve", "--port", "99999", cwd=tmp_path)
    assert process.returncode == 2 and process.stderr.startswith("online: --port: 99999 is out of range")
    assert "online.toml" not in process.stderr


def test_an_occupied_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        process = run_online("serve", "--state", str(tmp_path / "state"), "--port", port)
    assert process.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in process.stderr
    assert not (tmp_path / "state").exists() and "Traceback" not in process.stderr


def test_a_state_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    process = run_online("serve", "--state", str(tmp_path / "state"), "--port", "0")
    assert process.returncode == 2 and "is not writable" in process.stderr and "--state" in process.stderr


def test_a_state_folder_that_is_not_writable_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "sealed"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if os.access(folder, os.W_OK):
        folder = Path("/proc/online-state")  # even root cannot write here
    process = run_online("serve", "--state", str(folder / "state"), "--port", "0")
    assert process.returncode == 2 and "is not writable" in process.stderr and "Traceback" not in process.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    first_of(
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
            (
                'langfuse_secret_key = "x"',
                "langfuse_public_key and langfuse_secret_key are set together, or not at all",
            ),
            ('public_url = "example.org"', "public_url"),
        ],
        2,
    ),
)
def test_an_invalid_config_is_refused_with_the_name_of_the_setting(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "online.toml"
    path.write_text(text)
    port = () if text.startswith("port") else ("--port", "0")  # the default port may be occupied
    process = run_online("serve", "--state", str(tmp_path / "state"), "--config", str(path), *port)
    assert process.returncode == 2 and words in process.stderr and "Traceback" not in process.stderr


def test_a_missing_config_and_a_missing_state_folder_are_refused(tmp_path: Path) -> None:
    assert "no config file" in run_online("serve", "--config", str(tmp_path / "none.toml")).stderr
    assert "no state folder" in run_online("versions", "--state", str(tmp_path / "none")).stderr


def test_an_unreachable_store_is_refused_without_showing_its_password(tmp_path: Path) -> None:
    url = "postgresql+psycopg://somebody:hunter2@127.0.0.1:1/none"
    process = run_online("serve", "--state", str(tmp_path / "state"), "--port", "0", "--store", url)
    assert process.returncode == 2 and "cannot be opened" in process.stderr and "hunter2" not in process.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    first_of(
        [
            (("none.jsonl", "--model", "classifier"), "there is no file"),
            (("river:Nothing", "--model", "classifier"), "river has no dataset 'Nothing'"),
            (("river:TrumpApproval", "--model", "classifier"), "replay it with --model regressor"),
            (("river:Phishing", "--model", "oracle"), "unknown model kind 'oracle'"),
            (("river:Phishing", "--model", "ranker"), "a ranker replays a log"),
            (("river:Phishing", "--model", "classifier", "--option", "x"), "NAME=VALUE"),
            (("river:Phishing", "--model", "classifier", "--option", "x=1"), "unknown option 'x'"),
            (
                ("river:Phishing", "--model", "classifier", "--device", "cuda"),
                "there is no device 'cuda'; this machine has cpu",
            ),
            (("river:Phishing", "--model", "classifier", "--device", "tpu"), "there is no device 'tpu'"),
            (("river:Phishing", "--model", "classifier", "--drift", "forget"), "'forget' is not one of"),
        ],
        2,
    ),
)
def test_an_invalid_replay_is_refused_with_the_reason(arguments: tuple[str, ...], words: str) -> None:
    import torch

    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    process = run_online("replay", *arguments)
    assert process.returncode == 2 and words in process.stderr and "Traceback" not in process.stderr


def test_a_running_service_follows_a_rollback_from_the_command_line(start: Start, tmp_path: Path) -> None:
    service = start(VECTOR, durable_every_s=0.05)
    client = service.client("vec")
    for n in range(2):
        receipt = client.feedback([{"input": [n, n], "label": f"l{n}"}])[0]
        client.wait_until_learned(receipt["offset"], 60)
    flags = ["--state", str(tmp_path / "state"), "--config", str(tmp_path / "state.toml")]
    listed = json.loads(run_online("versions", *flags, "--json").stdout)["versions"]
    keys = {"version", "parent", "learned_until", "created_at", "state_sha256", "weights_sha256", "metrics", "live"}
    assert keys <= set(listed[0])
    process = run_online("rollback", "1", *flags)
    assert process.returncode == 0 and "answers from version 1" in process.stdout
    for name, data in client.events(60):
        if name == "rolled_back" or data["version"] == "1":
            break
    assert client.predict([[0, 0]])["model_version"] == "1"
    assert "no version 99" in run_online("rollback", "99", *flags).stderr


def test_a_second_learner_on_the_same_state_folder_is_refused(start: Start, tmp_path: Path) -> None:
    service = start('[[models]]\nname = "rv"\nkind = "river"\n')
    service.client("rv").events(60)
    service.wait_learned("rv", 0)
    until(service.learner_pid)
    process = run_online("learn", "--state", str(tmp_path / "state"), "--config", str(tmp_path / "state.toml"))
    assert process.returncode == 2 and "another learner is at work" in process.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_service_that_is_asked_to_stop_exits_with_status_0(start: Start, number: signal.Signals) -> None:
    assert start(VECTOR).stop(number) == 0


def test_a_learner_that_is_asked_to_stop_exits_with_status_0(tmp_path: Path) -> None:
    (tmp_path / "online.toml").write_text(VECTOR)
    command = [launcher(), "-m", "online", "learn", "--state", str(tmp_path / "state")]
    learner = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert learner.stderr is not None
    assert next(line for line in learner.stderr if "learner started pid=" in line)
    learner.terminate()
    assert learner.wait(60) == 0
    learner.stderr.close()


def test_an_invalid_repertoire_is_refused_with_its_line(tmp_path: Path) -> None:
    text = config(tmp_path, '[[models]]\nname = "chat"\nkind = "ranker"\n')
    (tmp_path / "repertoire.jsonl").write_text('{"text": "fine"}\nnot json\n')
    (tmp_path / "online.toml").write_text(text)
    flags = ["--state", str(tmp_path / "state"), "--config", str(tmp_path / "online.toml"), "--port", "0"]
    process = run_online("serve", *flags)
    assert process.returncode == 2 and "line 2" in process.stderr and "Traceback" not in process.stderr


def test_a_stream_without_a_redis_url_and_a_missing_repertoire_are_refused(tmp_path: Path) -> None:
    flags = ["--state", str(tmp_path / "state"), "--port", "0"]
    process = run_online("serve", *flags, "--stream", "http://example.org")
    assert process.returncode == 2 and "must be a redis:// URL" in process.stderr
    (tmp_path / "online.toml").write_text('repertoire = "nowhere.jsonl"')
    process = run_online("serve", *flags, "--config", str(tmp_path / "online.toml"))
    assert process.returncode == 2 and "nowhere.jsonl cannot be read" in process.stderr


def test_the_model_must_be_named_unless_only_one_fits(tmp_path: Path) -> None:
    shipped = Settings(state=tmp_path)
    assert select_model(shipped, None, lambda spec: can_tune_encoder(spec.kind, spec.options)).name == "chat"
    assert select_model(shipped, "digits").name == "digits"
    with pytest.raises(SetupError, match="name the model with --model: chat, digits"):
        select_model(shipped, None)
