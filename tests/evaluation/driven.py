"""The logs of a driven service, which several tests replay."""

from pathlib import Path
from typing import Any

from tests.conftest import config
from tests.evaluation.driving import MODELS, Drive
from tests.support import Service, run_online, until

Driven = dict[str, tuple[Path, dict[str, Any]]]


def export_driven(folder: Path) -> Driven:
    """Return model -> (its exported log, the newest version's manifest with the server's counts as `curve`).

    Under "MODEL, erased" is the same after two users were erased.
    """
    text = config(folder, MODELS)
    (folder / "online.toml").write_text(text)
    exported = Driven()
    service = Service(folder / "state", text)
    try:
        for seed, (name, compression) in enumerate({"chat": "", "vec": ".gz", "rv": ".zst"}.items()):
            with service.client(name) as client:
                drive = Drive(client, seed)
                drive.run()
                exported[name] = export_log(service, folder, name, drive.head, f"{name}.jsonl{compression}")
                drive.erase()
                erased = f"{name}, erased"
                exported[erased] = export_log(service, folder, name, drive.head, f"{name}-erased.jsonl{compression}")
    finally:
        service.stop()
    return exported


def export_log(service: Service, folder: Path, name: str, head: int, file: str) -> tuple[Path, dict[str, Any]]:
    """Export a model's log beside the service, once everything is learned."""
    service.wait_learned(name, head)
    curve = service.http.get(f"/v1/models/{name}/curve").json()
    until(lambda: service.versions(name)[0]["learned_until"] >= head, 60, "the newest version")
    live = {**service.versions(name)[0], "curve": curve}
    flags = ("--config", str(folder / "online.toml"), "--state", str(folder / "state"), "--model", name)
    exported = run_online("log", "export", *flags, "--output", str(folder / file))
    assert exported.returncode == 0, exported.stderr
    return folder / file, live
