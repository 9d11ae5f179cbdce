"""What a model is made with, beside its own options."""

from pathlib import Path

import pytest

from online.settings import ModelSettings, Settings
from online.workspace import Workspace


@pytest.mark.parametrize(("kind", "signs"), [("river", True), ("best_of", True), ("classifier", False)])
def test_only_what_signs_its_state_is_given_the_secret(kind: str, signs: bool, tmp_path: Path) -> None:
    workspace = Workspace(Settings(state=tmp_path))
    options = workspace.options(ModelSettings(name="sensor", kind=kind, options={"input": "table"}))
    assert options == {"input": "table", **({"key": workspace.secret} if signs else {})}
