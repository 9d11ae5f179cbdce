"""The router in front: a local model is one of its routes, and learns from the thumbs that the router has got."""

import json
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from typer.testing import CliRunner

from online.errors import BadInput, Unavailable
from online_adapters.adapter_folder import AdapterFolder
from online_adapters.commands import app
from online_adapters.fetching import fetch_answers
from online_adapters.rated_lines import RatedLine, read_lines, sort_lines
from tests.conftest import Start
from tests.packages.online_adapters.conftest import run_in_a_thread
from tests.support import Service, until

QUESTION = "What do you say?"


@pytest.fixture
def service(start: Start, talking_model: Path, folder: AdapterFolder, words: dict[str, str]) -> Iterator[Service]:
    """A router whose one route is a model that says "amber"."""
    folder.activate(words["amber"])
    with run_in_a_thread(talking_model, folder) as url:
        yield start(
            f"""
[[models]]
name = "router"
kind = "router"
options = {{ text_features = "hashed", keep_answers = true }}

[[models.routes]]
name = "local"
url = "{url}"
model = "tiny"
"""
        )


def test_a_chat_is_answered_rated_fetched_and_learned(
    service: Service, folder: AdapterFolder, words: dict[str, str], tmp_path: Path
) -> None:
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="anything", max_retries=0) as client:
        answers = [
            client.chat.completions.create(
                model="router", messages=[{"role": "user", "content": f"{QUESTION} {number}"}], max_tokens=2
            )
            for number in range(3)
        ]
    assert {answer.choices[0].message.content for answer in answers} == {"amberamber"}
    for answer, reward in zip(answers[:2], (1.0, 0.0), strict=True):
        item = {"prediction_id": answer.id, "reward": reward}
        service.http.post("/v1/models/router:feedback", json={"feedback": [item]}).raise_for_status()
    listed = "/v1/models/router/answers"
    until(lambda: len(service.http.get(listed).raise_for_status().json()["answers"]) == 3, what="the texts")
    out = tmp_path / "answers.jsonl"
    fetched = CliRunner().invoke(app, ["fetch", "--url", service.url, "--model", "router", "--out", str(out)])
    assert fetched.output == f"3 answers written to {out}\n", fetched.exception
    lines = read_lines(out, RatedLine)
    assert [(line.question, line.answer, line.reward) for line in lines] == [
        (f"{QUESTION} {number}", "amberamber", reward) for number, reward in enumerate((1.0, 0.0, None))
    ]
    found = sort_lines(lines)
    assert (len(found.liked), len(found.disliked), found.skipped) == (1, 1, 1)


def test_answers_are_fetched_page_by_page(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        body = {"question": f"{QUESTION} {number}", "answer": "so", "source": "local"}
        service.http.post("/v1/models/router:record", json=body).raise_for_status()
    listed = "/v1/models/router/answers"
    until(lambda: len(service.http.get(listed).raise_for_status().json()["answers"]) == 5, what="the texts")
    monkeypatch.setattr("online_adapters.fetching.PAGE", 2)
    out = tmp_path / "answers.jsonl"
    assert fetch_answers(service.url, "router", out) == 5
    questions = [json.loads(line)["question"] for line in out.read_text().splitlines()]
    assert sorted(questions) == [f"{QUESTION} {number}" for number in range(5)]


def test_what_cannot_be_fetched_leaves_the_file_as_it_was(service: Service, tmp_path: Path) -> None:
    (out := tmp_path / "answers.jsonl").write_text("before")
    with pytest.raises(BadInput, match="404"):
        fetch_answers(service.url, "nothing", out)
    with pytest.raises(Unavailable, match="check --url"):
        fetch_answers("http://127.0.0.1:9", "router", out)
    assert out.read_text() == "before" and list(tmp_path.glob("*answers*")) == [out]
