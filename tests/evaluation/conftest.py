"""A log of a driven service, which several tests replay."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import config
from tests.evaluation.driving import MODELS, Drive
from tests.support import Service, run_online, until

Driven = dict[str, tuple[Path, dict[str, Any]]]


@pytest.fixture(scope="session")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Driven:
    """Return model -> (its exported log, the newest version's manifest with the server's counts as `curve`)."""
    folder = tmp_path_factory.mktemp("parity")
    path = folder / "online.toml"
    text = config(folder, MODELS)
    path.write_text(text)
    models, live, curves = ("chat", "vec", "rv"), dict[str, Any](), dict[str, Any]()
    service = Service(folder / "state", text)
    try:
        for seed, name in enumerate(models):
            with service.client(name) as client:
                drive = Drive(client, seed)
                drive.run()
                until(lambda: client.status()["learned_until"] >= drive.head, 60, "everything to be learned")  # noqa: B023
            curves[name] = service.http.get(f"/v1/models/{name}/curve").json()
    finally:
        service.stop()
    exported = Driven()
    for name, compression in zip(models, ("", ".gz", ".zst"), strict=True):
        listed = run_online(
            "versions", "--config", str(path), "--state", str(folder / "state"), "--model", name, "--json"
        )
        live[name] = {**json.loads(listed.stdout)["versions"][0], "curve": curves[name]}
        log = folder / f"{name}.jsonl{compression}"
        export = run_online(
            "log",
            "export",
            "--config",
            str(path),
            "--state",
            str(folder / "state"),
            "--model",
            name,
            "--output",
            str(log),
        )
        assert export.returncode == 0, export.stderr
        exported[name] = log, live[name]
    return exported
