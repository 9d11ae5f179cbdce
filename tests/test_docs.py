"""The documentation is tested: what it names exists, its commands run, its requests are answered."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from online.client import Client
from online.models import create
from online.settings import Settings
from tests.preload import launcher
from tests.support import Service, run_online

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
INTEGRATIONS = (DOCS / "how-to" / "integrations.md").read_text()
TUTORIAL = (DOCS / "tutorial.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
PAGES = sorted(
    [
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")),
        *DOCS.rglob("*.md"),
        *ROOT.glob("labs/**/*.md"),
    ]
)


def page_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(language: str, page: str) -> list[str]:
    return [textwrap.dedent(block) for block in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)]


def run_curl(block: str, service: Service) -> str:
    words = shlex.split(block.replace("\\\n", " ").replace("localhost:8000", service.url), comments=True)
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


# all pages: each test lists every violation of one rule


def test_the_front_page_is_short() -> None:
    assert len(README.splitlines()) <= 130


def test_every_linked_file_exists() -> None:
    missing = [
        (page_name(page), target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)", page.read_text())
        if not re.match(r"https?://|localhost", target) and not (page.parent / target).exists()
    ]
    assert missing == []


def test_every_page_of_the_manual_is_listed() -> None:
    listed = set(re.findall(r"\]\(([\w./-]+\.md)\)", (DOCS / "index.md").read_text()))
    in_menu = set(re.findall(r": ([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)) - {"index.md"}
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"index.md", "experiments.md"}
    assert (pages - listed, pages ^ in_menu) == (set(), set())


@pytest.mark.long
def test_every_generated_page_is_up_to_date() -> None:
    process = subprocess.run(
        [sys.executable, str(DOCS / "generate.py"), "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


def test_every_path_benchmark_and_make_target_that_is_named_exists() -> None:
    assert [(page_name(page), name) for page in PAGES for name in missing_names(page.read_text())] == []


FOLDERS = "online|tests|docs|benchmarks|data|deploy|frontend|labs|packages|examples"


def missing_names(text: str) -> Iterator[str]:
    """Yield each path, benchmark and make target in the text of a page that does not exist."""
    for name in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", text):
        if not (ROOT / name).exists() and name != "online/api/static":
            yield name
    for module in re.findall(r"python -m ((?:benchmarks|labs)\.[\w.]*\w)", text):
        place = ROOT / module.replace(".", "/")
        if not place.with_suffix(".py").exists() and not (place / "__main__.py").exists():
            yield module
    for target in re.findall(r"^make ([\w-]+)", "\n".join(blocks("sh", text)), re.MULTILINE):
        if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE):
            yield f"make {target}"


def test_every_toml_block_is_a_valid_configuration() -> None:
    for page in PAGES:
        for block in blocks("toml", page.read_text()):
            for model in Settings.model_validate(tomllib.loads(block)).models:
                create(model.kind, model.options)


EXAMPLES = [ROOT / "deploy" / "nginx" / "nginx.conf", ROOT / "deploy" / "caddy" / "Caddyfile"]


def proxied_configurations() -> Iterator[tuple[str, str]]:
    """(where, TOML) of every example of a service that people reach under an https address, which a proxy has for it."""
    for page in PAGES:
        yield from ((page_name(page), block) for block in blocks("toml", page.read_text()))
    for file in EXAMPLES:
        yield page_name(file), "\n".join(re.findall(r"^#     (\w+ = .*)$", file.read_text(), re.MULTILINE))


def test_every_example_behind_a_proxy_names_the_proxy() -> None:
    found = [(where, tomllib.loads(block)) for where, block in proxied_configurations()]
    behind = [
        (where, given)
        for where, given in found
        if "identity_header" in given or ("public_url" in given and "tls_certificate" not in given)
    ]
    assert len(behind) >= 5 and {page_name(file) for file in EXAMPLES} < {where for where, _ in behind}
    assert [where for where, given in behind if not given.get("trusted_proxies")] == []


def test_no_docker_command_publishes_plain_http_beyond_its_machine() -> None:
    lines = [line for page in PAGES for block in blocks("sh", page.read_text()) for line in block.splitlines()]
    for line in [line for line in lines if line.startswith("docker run ")]:
        ports = re.findall(r"(?:-p|--publish)[ =](\S+)", line)
        is_local = all(port.startswith("127.0.0.1:") for port in ports)
        assert is_local or "ONLINE_TLS_CERTIFICATE" in line, line
        assert "https://" not in line or "ONLINE_TLS_CERTIFICATE" in line or "ONLINE_TRUSTED_PROXIES" in line, line


def test_every_metric_that_is_named_exists(service: Service) -> None:
    exported = service.http.get("/metrics").text
    missing = [
        (page_name(page), name)
        for page in PAGES
        for name in re.findall(r"`(online_\w+)`", page.read_text())
        if name not in exported and name not in ("online_pb2", "online_pb2_grpc")
    ]
    assert missing == []


def test_the_openapi_document_of_the_frontend_is_up_to_date() -> None:
    printed = subprocess.run([launcher(), "-m", "online", "openapi"], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == json.loads((ROOT / "frontend" / "openapi.json").read_text()), (
        "run: online openapi > frontend/openapi.json && npm --prefix frontend run gen"
    )


def test_the_messages_on_the_troubleshooting_page_are_those_of_the_code() -> None:
    """What stands between the values of each message (`...`) is part of a string of the code."""
    page = (DOCS / "how-to" / "troubleshooting.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    spans = [span for row in rows for span in re.findall(r"`([^`]+)`", row)]
    messages = [each for each in spans if each.count(" ") >= 2 and not re.match(r"online |GET | |.* = ", each)]
    known = {string for path in (ROOT / "online").rglob("*.py") for string in strings_in(path)}
    parts = {part.strip() for message in messages for part in re.split(r"\.\.\.", message)} - {""}
    assert len(messages) >= 30
    assert [part for part in sorted(parts) if not any(part in string for string in known)] == []


def strings_in(path: Path) -> Iterator[str]:
    """Yield the strings of a module, those of f-strings without their values."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


# README


def test_the_requests_of_the_readme_are_answered(service: Service) -> None:
    service.wait_learned("chat", 1)
    predict, reward = (block for block in blocks("sh", README) if block.startswith("curl"))
    prediction = json.loads(run_curl(predict, service))["prediction_ids"][0]
    receipt = json.loads(run_curl(reward.replace("0660c6...", prediction), service))
    assert receipt["receipts"][0]["status"] == "accepted"
    assert json.loads((blocks("json", README)[0]).replace("...", ""))["model_version"] == "4"


def test_the_python_of_the_readme_runs(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.wait_learned("chat", 1)
    code = blocks("python", README)[0].replace("http://127.0.0.1:8000", service.url)
    exec(compile(code, "README.md", "exec"), {"Client": Client})
    assert "Two chargers stand behind the library." in capsys.readouterr().out


# the manual


def test_the_tutorial_runs(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """Its model is `txt` in the shared service, which differs only in that it never abstains."""
    names: dict[str, object] = {}
    for block in blocks("python", TUTORIAL):
        code = block.replace("http://127.0.0.1:8000", service.url).replace('"tickets"', '"txt"')
        exec(compile(code, "tutorial.md", "exec"), names)
    assert "billing from version" in capsys.readouterr().out


def test_the_page_about_ones_own_models_runs(tmp_path: Path) -> None:
    """Its modules, its replays and its configuration, in a folder of their own."""
    page = (DOCS / "how-to" / "write-a-model.md").read_text()
    for block in blocks("python", page):
        (tmp_path / block.partition("\n")[0].removeprefix("# ")).write_text(block)
    assert {path.name for path in tmp_path.iterdir()} == {"shop_models.py", "nearest_mean.py", "test_nearest_mean.py"}
    variables = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    check = [sys.executable, "-m", "pytest", "-q", "test_nearest_mean.py"]
    checked = subprocess.run(check, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    mails = "".join(f"{n % 9},{'yes' if n % 2 else 'no'},{'spam' if n % 9 > 4 else 'ham'}\n" for n in range(200))
    (tmp_path / "mails.csv").write_text(f"links,known,spam\n{mails}")
    sales = "".join(f"{n % 7},{10 + 5 * (n % 7) + n % 3}\n" for n in range(200))
    (tmp_path / "sales.csv").write_text(f"weekday,sold\n{sales}")
    commands = [line for block in blocks("sh", page) for line in block.splitlines() if line.startswith("online replay")]
    assert len(commands) == 5
    for command in commands:
        done = run_online(
            *shlex.split(command)[1:], "--json", cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        for result in json.loads(done.stdout)["results"]:
            assert result["examples"] >= 200, command


def test_the_tensorflow_request_is_answered(service: Service) -> None:
    service.wait_learned("chat", 1)
    page = (DOCS / "how-to" / "use-other-clients.md").read_text()
    request = next(block for block in blocks("sh", page) if block.startswith("curl"))
    assert set(json.loads(run_curl(request, service))["outputs"]) == {"id", "text", "score"}


def test_the_headers_in_the_integrations_page_are_the_ones_the_service_reads() -> None:
    headers = json.loads(blocks("json", INTEGRATIONS)[0])
    assert headers == {"X-Message-Id": "{{MESSAGE_ID}}", "X-Task": "{{TASK}}"}
    route = (ROOT / "online" / "plugins" / "openai" / "chat_requests.py").read_text()
    assert '"x-message-id"' in route and '"x-task"' in route


def test_the_requests_of_the_integrations_are_answered(service: Service) -> None:
    service.wait_learned("chat", 1)
    predict, ratings = (block for block in blocks("sh", INTEGRATIONS) if block.startswith("curl"))
    url = json.loads(run_curl(predict, service))["feedback_url"]
    responses = [json.loads(run_curl(line.replace("$FEEDBACK_URL", url), service)) for line in ratings.splitlines()]
    assert [response["status"] for response in responses] == ["accepted", "accepted", "retracted"]


# data


def test_the_shipped_log_replays_to_the_state_its_page_names() -> None:
    page = (ROOT / "data" / "README.md").read_text()
    command = re.findall(r"^(online replay .*)$", page, re.MULTILINE)[0]
    state = re.findall(r"\b[0-9a-f]{64}\b", page)[0]
    printed = subprocess.run([launcher(), "-m", *command.split()], capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(printed.stdout)["results"][0]["state_sha256"] == state


def test_the_starter_repertoire_has_the_sizes_its_page_states() -> None:
    replies = [json.loads(line) for line in (ROOT / "data" / "repertoire.jsonl").read_text().splitlines()]
    assert len({reply["id"] for reply in replies}) == len({reply["text"] for reply in replies}) == 135
    questions = [question for reply in replies for question in reply["examples"]]
    assert len(questions) == len(set(questions)) == 964
    assert min(len(reply["examples"]) for reply in replies) >= 5
