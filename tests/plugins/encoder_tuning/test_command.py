"""`online adapt` on files of labelled texts, for a model that has no log yet."""

import csv
import json
from pathlib import Path

import pytest

from online.errors import BadInput
from online.evaluation.sources.column_choice import ColumnChoice
from online.evaluation.sources.replay_source import ReadOptions
from online.models import recipe
from online.plugins.encoder_tuning.adoption import AdaptationRun
from online.plugins.encoder_tuning.labelled_texts import read_labelled_texts
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from tests.plugins.encoder_tuning.test_tuning import QUICK, orders
from tests.support import run_online

MODEL = '[[models]]\nname = "bar"\nkind = "classifier"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "online.toml").write_text(f'state = "{tmp_path}/state"\n{MODEL}')
    with (tmp_path / "orders.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("number", "said", "drink"), *((n, *row) for n, row in enumerate(orders()))])
    lines = (json.dumps({"input": {"text": text}, "label": drink}) for text, drink in orders())
    (tmp_path / "orders.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("orders.csv", ReadOptions(label="drink")),
        ("orders.csv", ReadOptions(label="drink", columns=ColumnChoice(features=("said",)))),
        ("orders.jsonl", ReadOptions()),
    ],
)
def test_texts_are_read_from_a_file_as_they_are_loaded(folder: Path, name: str, reads: ReadOptions) -> None:
    assert [*read_labelled_texts([str(folder / name)], reads, 8_000)] == orders()


def test_rows_without_a_text_are_named(folder: Path) -> None:
    (folder / "gaps.jsonl").write_text('{"input": "tea, please", "label": "tea"}\n{"input": "  ", "label": "tea"}\n')
    with pytest.raises(BadInput, match=r"gaps.jsonl, line 2 has no text"):
        [*read_labelled_texts([str(folder / "gaps.jsonl")], ReadOptions(), 8_000)]


@pytest.mark.long
def test_an_encoder_that_was_tuned_on_a_file_is_in_use_before_the_same_file_is_loaded(folder: Path) -> None:
    spec = ModelSettings.model_validate({"name": "bar", "kind": "classifier"})
    workspace = Workspace(Settings(state=folder / "state", models=(spec,)))
    outcome = AdaptationRun(workspace, "bar", QUICK, rows=orders()).run(True, lambda what, done, of: None)
    assert outcome.verdict is not None and outcome.verdict.judged == len(orders()) and outcome.verdict.better
    assert workspace.options(spec)["encoder"] == outcome.encoder != ""
    assert [*outcome.lines()][-1].endswith("is in use: load files (`online load`), or start the service")
    workspace.store.close()
    loaded = run_online("load", "orders.csv", "--label", "drink", "--processes", "1", cwd=folder)
    assert loaded.returncode == 0, loaded.stderr
    again = Workspace(Settings(state=folder / "state", models=(spec,)))
    (base,) = again.snapshots("bar").base().folder.manifests()
    assert base.recipe == recipe("classifier", again.options(spec))
    again.store.close()


@pytest.mark.long
def test_a_file_is_judged_by_the_command_and_nothing_changes(folder: Path) -> None:
    done = run_online("adapt", "orders.csv", "--label", "drink", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["judged"] == len(orders()) and verdict["version"] is None


@pytest.mark.long
def test_a_model_that_began_with_files_refuses_another_encoder(folder: Path) -> None:
    assert run_online("load", "orders.csv", "--label", "drink", "--processes", "1", cwd=folder).returncode == 0
    refused = run_online("adapt", "orders.csv", "--label", "drink", "--publish", cwd=folder)
    assert refused.returncode == 2 and "whose texts are not kept" in " ".join(refused.stderr.split())


def test_files_are_refused_beside_frozen(folder: Path) -> None:
    refused = run_online("adapt", "orders.csv", "--label", "drink", "--frozen", cwd=folder)
    assert refused.returncode == 2 and "needs no files" in refused.stderr
