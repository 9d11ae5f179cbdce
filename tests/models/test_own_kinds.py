"""Kinds of models that the operator brings: what is admitted, under which name, and what is refused with which reason."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from online.errors import SetupError
from online.models import KINDS, Example, KindSpec, admit, admit_all, create, find_entry_points, find_kind, spec_of
from online.models.contract import Model
from online.models.kinds import ADMITTED
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from tests.models.synthetic import row

NEAREST = "tests.models.nearest_mean:NearestMean"
HERE = "tests.models.test_own_kinds"


class WithoutTask:
    def predict(self) -> None: ...


class Incomplete:
    task = "classification"

    def predict(self) -> None: ...


class InheritsTheProtocol(Model):
    task = "classification"


class WrongTask:
    task = "clustering"


class WrongInput:
    task, inputs = "classification", ("sound",)


KIND = KindSpec("any", NEAREST, "classification", inputs=("table",), is_exact=True)


@pytest.fixture(autouse=True)
def forget_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [*sys.path])
    for name in [*ADMITTED]:
        monkeypatch.delitem(ADMITTED, name)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            f"{HERE}:WithoutTask",
            "WithoutTask must say its task, one of classification, regression, ranking, routing, not ''",
        ),
        (f"{HERE}:WrongTask", "must say its task, .* not 'clustering'"),
        (f"{HERE}:WrongInput", "must read one or more of text, vector, table, not .*sound"),
        (f"{HERE}:Incomplete", "Incomplete is no model: it lacks learn, check, unlearn, drifted"),
        (f"{HERE}:InheritsTheProtocol", "InheritsTheProtocol is no model: it lacks predict, learn"),
        (f"{HERE}:Nothing", "has no attribute 'Nothing'"),
        (f"{HERE}:HERE", "is a str: name a KindSpec, or a class"),
        ("no_such_module:Model", "there is no module 'no_such_module' among the installed packages or in "),
    ],
)
def test_what_is_no_model_is_refused_with_the_reason(path: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        admit(path)
    assert find_kind(path) is None


def test_a_class_and_a_kind_spec_are_admitted_under_the_name_the_operator_uses() -> None:
    admit_all([("classifier", {"challenger": {"kind": NEAREST}}), (f"{HERE}:KIND", {})])
    assert {*ADMITTED} == {NEAREST, f"{HERE}:KIND"} and not {*ADMITTED} & {*KINDS}
    assert spec_of(f"{HERE}:KIND").is_exact and not spec_of(NEAREST).is_exact
    model = create(f"{HERE}:KIND", {})
    model.learn([Example(1, "label", row({"x": 1.0}), "a"), Example(2, "label", row({"x": 5.0}), "b")])
    assert [answer.choice for answer in model.predict([row({"x": 0.0}), row({"x": 6.0})])] == ["a", "b"]


def test_an_unknown_option_and_a_kind_that_was_not_admitted_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown model kind"):
        create(NEAREST, {})
    admit(NEAREST)
    with pytest.raises(ValueError, match="unknown option 'k'"):
        create(NEAREST, {"k": 1})


def test_a_module_beside_the_command_is_found_and_its_errors_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "needs_more.py").write_text("import a_package_that_nobody_has")
    (tmp_path / "fails.py").write_text("1 / 0")
    (tmp_path / "fine_model.py").write_text("from tests.models.nearest_mean import NearestMean as Mine")
    importlib.invalidate_caches()
    with pytest.raises(ValueError, match="needs 'a_package_that_nobody_has', which is not installed"):
        admit("needs_more:M")
    with pytest.raises(ValueError, match="importing fails failed with ZeroDivisionError"):
        admit("fails:M")
    admit("fine_model:Mine")
    assert create("fine_model:Mine", {}).feature_epoch() == "table"


def install(folder: Path, entries: str) -> None:
    """What pip leaves of a package with entry points."""
    info = folder / "shop_models-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-models\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[online.models]\n{entries}\n")


def test_an_installed_package_brings_a_kind_by_its_entry_point_and_replaces_no_built_in_one(tmp_path: Path) -> None:
    install(tmp_path, f"nearest = {NEAREST}\nclassifier = {NEAREST}")
    sys.path.append(str(tmp_path))
    assert {*find_entry_points()} == {"nearest"}
    admit("nearest")
    admit("classifier")
    assert spec_of("nearest").path == NEAREST and spec_of("classifier") is KINDS["classifier"]
    assert create("nearest", {}).feature_epoch() == "table"


def make_settings(folder: Path, **model: Any) -> Settings:
    return Settings(state=folder / "state", models=(ModelSettings(name="mine", **model),))


def test_the_settings_of_a_service_admit_its_kinds(tmp_path: Path) -> None:
    workspace = Workspace(make_settings(tmp_path, kind=NEAREST))
    workspace.store.close()
    assert spec_of(NEAREST).task == "classification"
    with pytest.raises(SetupError, match=r"a model of the settings cannot be used: .* must say its task"):
        Workspace(make_settings(tmp_path, kind=f"{HERE}:WithoutTask"))
