"""Docs are tested: what the README names exists, and what exists is named there."""

import json
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from online.cli import app
from online.client import Client
from online.models import create
from online.settings import Settings
from tests.support import Service

ROOT = Path(__file__).parent.parent
README, INTEGRATIONS = ((ROOT / name).read_text() for name in ("README.md", "INTEGRATIONS.md"))


def blocks(language: str, page: str = README) -> list[str]:
    return [textwrap.dedent(block) for block in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)]


def test_the_tree_in_the_readme_is_the_package() -> None:
    tree = README.split("## The house")[1].split("```")[1]
    folder, named = "", set()
    for line in tree.splitlines():
        found = re.match(r"( *)([\w.]+/?)\s{2,}", line)
        if found and found.group(1):
            depth, name = len(found.group(1)), found.group(2)
            folder = (name if name.endswith("/") else "") if depth == 2 else folder
            if not name.endswith("/"):
                named.add(f"{folder if depth == 4 else ''}{name}")
    package = ROOT / "online"
    actual = {str(path.relative_to(package)) for path in package.rglob("*.py") if "static" not in path.parts}
    one_liners = {"serving/__init__.py", "learning/__init__.py", "evaluation/__init__.py"}
    compiled = {name for name in actual if name.startswith("serving/protos/")}
    assert named == actual - one_liners - compiled


def test_every_setting_is_named_with_its_default() -> None:
    listed = dict(re.findall(r"^\| (`[\w`, ]+`) \| (.*?) \|", README.split("Settings, each also")[1], re.MULTILINE))
    named = {name for names in listed for name in re.findall(r"\w+", names)}
    assert set(Settings.model_fields) <= named
    for names, default in listed.items():
        name = re.findall(r"\w+", names)[0]
        actual = Settings.model_fields[name].default if name in Settings.model_fields else None
        if isinstance(actual, (int, float)) and not isinstance(actual, bool):
            assert float(default.replace(",", "").split()[0]) == float(actual), name


def test_every_verb_exists_and_is_named() -> None:
    command = get_command(app)
    verbs = {name for name, each in command.commands.items() if not each.hidden}  # type: ignore[attr-defined]
    named = set(re.findall(r"^\| `online (\w+)", README, re.MULTILINE))
    assert named == verbs


def test_every_path_of_the_api_is_named() -> None:
    document = json.loads((ROOT / "frontend" / "openapi.json").read_text())
    for path in document["paths"]:
        assert path in README, path


def test_the_pages_types_are_made_from_the_api_as_it_is() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "online", "openapi"], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(printed) == json.loads((ROOT / "frontend" / "openapi.json").read_text()), (
        "run: online openapi > frontend/openapi.json && npm --prefix frontend run gen"
    )


def test_the_config_in_the_readme_is_valid() -> None:
    told = [Settings.model_validate(tomllib.loads(block)).models for block in blocks("toml")]
    assert [len(models) for models in told] == [4, 1]
    for model in (model for models in told for model in models):
        create(model.kind, model.options)


def test_the_metrics_in_the_docs_exist(service: Service) -> None:
    text = service.http.get("/metrics").text
    for name in re.findall(r"`(online_\w+)`", README):
        assert name in text


def test_the_requests_in_the_readme_are_answered(service: Service) -> None:
    service.wait_learned("chat", 1)
    asked, rewarded, tensors = (block for block in blocks("sh") if block.startswith("curl"))
    assert set(json.loads(run_curl(tensors, service))["outputs"]) == {"id", "text", "score"}
    prediction = json.loads(run_curl(asked, service))["prediction_ids"][0]
    receipt = json.loads(run_curl(rewarded.replace("0660c6...", prediction), service))
    assert receipt["receipts"][0]["status"] == "accepted"
    assert json.loads((blocks("json")[0]).replace("...", ""))["model_version"] == "4"


def run_curl(block: str, service: Service) -> str:
    words = shlex.split(block.replace("\\\n", " ").replace("localhost:8000", service.url), comments=True)
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_the_python_in_the_readme_runs(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.wait_learned("chat", 1)
    code = next(block for block in blocks("python") if "Client" in block).replace("http://127.0.0.1:8000", service.url)
    exec(compile(code, "README.md", "exec"), {"Client": Client})
    assert "Two chargers stand behind the library." in capsys.readouterr().out


def test_the_settings_on_the_page_of_integrations_are_valid() -> None:
    shown = [tomllib.loads(block) for block in blocks("toml", INTEGRATIONS)]
    assert len(shown) == 2 and all(Settings.model_validate(each) for each in shown)
    listed = {name for each in shown for name in each}
    assert listed | {"open_webui_every_s", "public_url"} <= Settings.model_fields.keys()


def test_the_headers_on_the_page_of_integrations_are_those_that_are_read() -> None:
    headers = json.loads(blocks("json", INTEGRATIONS)[0])
    assert headers == {"X-Message-Id": "{{MESSAGE_ID}}", "X-Task": "{{TASK}}"}
    door = (ROOT / "online" / "serving" / "completions.py").read_text()
    assert '"x-message-id"' in door and '"x-task"' in door


def test_the_requests_on_the_page_of_integrations_are_answered(service: Service) -> None:
    service.wait_learned("chat", 1)
    asked, rated = (block for block in blocks("sh", INTEGRATIONS) if block.startswith("curl"))
    url = json.loads(run_curl(asked, service))["feedback_url"]
    answers = [json.loads(run_curl(line.replace("$FEEDBACK_URL", url), service)) for line in rated.splitlines()]
    assert [answer["status"] for answer in answers] == ["accepted", "accepted", "retracted"]


def test_make_has_the_verbs_the_readme_names() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("sh")), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_shipped_log_replays_to_the_state_its_page_names() -> None:
    page = (ROOT / "data" / "README.md").read_text()
    command, state = (
        re.findall(r"^(online replay .*)$", page, re.MULTILINE)[0],
        re.findall(r"\b[0-9a-f]{64}\b", page)[0],
    )
    printed = subprocess.run(
        [sys.executable, "-m", *command.split()], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert json.loads(printed.stdout)["results"][0]["state_sha256"] == state


def test_the_starter_repertoire_is_what_its_page_says() -> None:
    replies = [json.loads(line) for line in (ROOT / "data" / "repertoire.jsonl").read_text().splitlines()]
    assert len({reply["id"] for reply in replies}) == len({reply["text"] for reply in replies}) == 135
    questions = [question for reply in replies for question in reply["examples"]]
    assert len(questions) == len(set(questions)) == 961
    assert min(len(reply["examples"]) for reply in replies) >= 5
