"""The export of a log is atomic."""

import resource
from pathlib import Path

import pytest

from online.errors import SetupError
from online.evaluation.sources.log_export import LogExport
from online.settings import ModelSettings, Settings
from online.workspace import Workspace

MODEL = ModelSettings(name="m", kind="classifier", options={"input": "table"})


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz", "log.jsonl.zst"])
def test_an_export_to_a_full_disk_leaves_the_existing_log_unchanged(tmp_path: Path, name: str) -> None:
    workspace = Workspace(Settings(state=tmp_path / "state", models=[MODEL]))
    export, output = LogExport(workspace, MODEL), tmp_path / "out" / name
    output.parent.mkdir()
    output.write_text("the old log")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, limits[1]))  # no file grows beyond 8 bytes
    try:
        with pytest.raises(SetupError, match="cannot be written to"):
            export.write(output, lambda done, of: None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert output.read_text() == "the old log"
    assert [path.name for path in output.parent.iterdir()] == [name]
    export.write(output, lambda done, of: None)
    assert output.read_bytes() != b"the old log" and len(list(output.parent.iterdir())) == 1
    workspace.store.close()
