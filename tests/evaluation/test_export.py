"""A log that cannot be written whole is not written at all."""

import resource
from pathlib import Path

import pytest

from online.errors import SetupError
from online.evaluation.export import Export
from online.settings import ModelSettings, Settings
from online.workspace import Workspace

MODEL = ModelSettings(name="m", kind="classifier", options={"input": "table"})


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz", "log.jsonl.zst"])
def test_a_full_disk_leaves_the_log_that_was_there_and_nothing_beside_it(tmp_path: Path, name: str) -> None:
    workspace = Workspace(Settings(state=tmp_path / "state", models=[MODEL]))
    made, output = Export(workspace, MODEL), tmp_path / "out" / name
    output.parent.mkdir()
    output.write_text("the one before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, limits[1]))  # no file grows beyond 8 bytes
    try:
        with pytest.raises(SetupError, match="cannot be written to"):
            made.write(output, lambda done, of: None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert output.read_text() == "the one before"
    assert [path.name for path in output.parent.iterdir()] == [name]
    made.write(output, lambda done, of: None)
    assert output.read_bytes() != b"the one before" and len(list(output.parent.iterdir())) == 1
    workspace.store.close()
