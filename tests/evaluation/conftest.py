"""A log that many tests replay."""

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
    """model -> (its exported log, the newest version's manifest with the counts its server told as `curve`)."""
    folder = tmp_path_factory.mktemp("parity")
    path = folder / "online.toml"
    text = config(folder, MODELS)
    path.write_text(text)
    names, live, told = ("chat", "vec", "rv"), dict[str, Any](), dict[str, Any]()
    service = Service(folder / "state", text)
    try:
        for seed, name in enumerate(names):
            with service.client(name) as client:
                drive = Drive(client, seed)
                drive.run()
                until(lambda: client.status()["learned_until"] >= drive.head, 60, "everything to be learned")  # noqa: B023
            told[name] = service.http.get(f"/v1/models/{name}/curve").json()
    finally:
        service.stop()
    made = Driven()
    for name, packed in zip(names, ("", ".gz", ".zst"), strict=True):
        listed = run_online(
            "versions", "--config", str(path), "--state", str(folder / "state"), "--model", name, "--json"
        )
        live[name] = {**json.loads(listed.stdout)["versions"][0], "curve": told[name]}
        log = folder / f"{name}.jsonl{packed}"
        done = run_online(
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
        assert done.returncode == 0, done.stderr
        made[name] = log, live[name]
    return made
