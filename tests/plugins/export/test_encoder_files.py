"""The text encoders of models as small files: each model has its own, and few requests wait for one."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from online.io.cache import cache_folder
from online.models.encoders import minilm
from online.plugins.export.compact import compact_epoch
from online.plugins.export.encoder_files import EncoderFiles
from online.settings import Settings
from online.state.workspace import Workspace
from tests.plugins.export.test_export_files import ask_too_often

MODELS = ("a", "b", "c")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    models = [{"name": name, "kind": "classifier"} for name in MODELS]
    workspace = Workspace(Settings.model_validate({"state": tmp_path / "state", "models": models}))
    yield workspace
    workspace.store.close()


def tune(workspace: Workspace, scale: float) -> str:
    """A tuned encoder; return its name."""
    weights = minilm.read_weights(minilm.package_folder())
    name = next(name for name in weights if "layer.5.output.dense.weight" in name)
    return minilm.write_tuned(workspace.encoders.folder, {name: weights[name] * scale}).stem


@pytest.mark.long
def test_a_tuned_encoder_of_one_model_stays_whatever_others_write(workspace: Workspace) -> None:
    async def load_all() -> dict[Path, int]:
        names = [tune(workspace, 1.1 + place) for place in range(len(MODELS))]
        return {
            path: path.stat().st_ino
            for model, encoder in zip(MODELS, names, strict=True)
            for path in [await EncoderFiles(workspace, model).load(encoder)]
        }

    first = asyncio.run(load_all())
    assert len(first) == 3 and asyncio.run(load_all()) == first, "none is written again"
    assert all(path.is_relative_to(workspace.state / "exports" / MODELS[place]) for place, path in enumerate(first))


def test_the_frozen_encoder_is_one_file_for_all_models(workspace: Workspace) -> None:
    files = {asyncio.run(EncoderFiles(workspace, model).load("")) for model in MODELS}
    assert files == {cache_folder() / f"{compact_epoch()}.onnx"}


@pytest.mark.long
def test_few_requests_may_wait_for_an_encoder(workspace: Workspace) -> None:
    files, encoder = EncoderFiles(workspace, "a"), tune(workspace, 1.5)
    found = asyncio.run(ask_too_often(files.turns, lambda: files.load(encoder)))
    assert len({*found}) == 1 and found[0].exists()
