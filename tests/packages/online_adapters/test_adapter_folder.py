"""The folder of adapters: names that never mean anything else, and changes that are whole or not there."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from online.errors import BadInput, NotFound
from online_adapters.adapter_folder import FILES, AdapterFolder
from online_adapters.commands import app


def save_adapter(folder: Path, weights: bytes) -> Path:
    folder.mkdir()
    for name in FILES:
        (folder / name).write_bytes(weights)
    return folder


def test_the_same_files_have_the_same_name_and_others_another(folder: AdapterFolder, tmp_path: Path) -> None:
    names = [folder.add(save_adapter(tmp_path / str(n), weights)) for n, weights in enumerate((b"a", b"a", b"b"))]
    assert names[0] == names[1] != names[2] and folder.list_names() == [names[0], names[2]]
    assert sorted(path.name for path in folder.path.iterdir()) == sorted({*names}), "nothing else is left"


def test_an_adapter_whose_files_were_changed_is_not_put_in_force(folder: AdapterFolder, tmp_path: Path) -> None:
    name = folder.add(save_adapter(tmp_path / "a", b"a"))
    (folder.path / name / FILES[1]).write_bytes(b"b")
    with pytest.raises(BadInput, match="were changed"):
        folder.activate(name)
    assert folder.read_active() == ""


def test_what_is_no_adapter_is_refused(folder: AdapterFolder, tmp_path: Path) -> None:
    (folder.path / "active").write_text("../elsewhere")
    with pytest.raises(BadInput, match="run online-adapters activate"):
        folder.read_active()
    with pytest.raises(NotFound):
        folder.activate("adapter-0123456789abcdef")
    with pytest.raises(BadInput, match=FILES[0]):
        folder.add(tmp_path)


def test_the_commands_put_adapters_in_force_and_list_them(folder: AdapterFolder, tmp_path: Path) -> None:
    name, where = folder.add(save_adapter(tmp_path / "a", b"a")), ["--adapters", str(folder.path)]
    run = CliRunner().invoke
    assert run(app, ["activate", name, *where]).output == f"{name} is in force\n"
    assert run(app, ["list", *where]).output == f"  base model\n* {name}\n"
    assert run(app, ["activate", "--none", *where]).exit_code == 0 and folder.read_active() == ""
    assert isinstance(run(app, ["activate", *where]).exception, BadInput)
