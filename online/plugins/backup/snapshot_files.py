"""The files of the state folder that a backup holds: versions, what names them, tuned encoders, and the keys.

    snapshots/<model>/   the live version, the one before it, those with labels, and the newest durable ones;
                         LIVE, labels/*, FROZEN, ROLLED_BACK as small files; base/, what was learned from expired events
    encoders/*.safetensors
    keys.json, audit.head   only where they are asked for

Each file is linked aside first, under the lock of its folder, so that pruning and publishing go on meanwhile.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from online.errors import CorruptSnapshot, NotFound
from online.plugins.backup.archive import SavedModel
from online.settings import Settings
from online.snapshots import BASE, Snapshots
from online.snapshots.folder import ROLLED_BACK, LiveVersion
from online.snapshots.manifest import Manifest
from online.state.workspace import snapshots_in

DURABLE = 3  # newest durable versions that a backup holds
LINK = ".link"  # ends the names of files that hold the target of a symbolic link
KEYS = ("keys.json", "audit.head")


def link_files(settings: Settings, aside: Path, with_keys: bool) -> dict[str, tuple[tuple[int, int, str], ...]]:
    """Link what a backup holds into a folder beside the state folder; return model -> its versions, newest first."""
    saved = {}
    for spec in settings.models:
        if (settings.state / "snapshots" / spec.name).is_dir():
            saved[spec.name] = link_model(snapshots_in(settings, spec.name), aside / "snapshots" / spec.name)
    for path in (settings.state / "encoders").glob("*.safetensors"):
        link(path, aside / "encoders" / path.name)
    for name in KEYS if with_keys else ():
        with suppress(FileNotFoundError):
            link(settings.state / name, aside / name)
    return saved


def link_model(snapshots: Snapshots, aside: Path) -> tuple[tuple[int, int, str], ...]:
    """Link the versions of one model, and what names them; return (version, learned until, hash), newest first."""
    folder = snapshots.folder
    with folder.locked():
        manifests = choose(snapshots)
        for manifest in manifests:
            link_tree(folder.path / str(manifest.version), aside / str(manifest.version))
        for path in (folder.path / "LIVE", *(folder.path / "labels").glob("*")):
            if path.is_symlink() and not path.name.startswith("."):
                target = aside / path.relative_to(folder.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.with_name(target.name + LINK).write_text(str(path.readlink()))
        for name in ("FROZEN", ROLLED_BACK):
            with suppress(FileNotFoundError):
                link(folder.path / name, aside / name)
        if snapshots.has_base:
            link_tree(folder.path / BASE, aside / BASE)
    return tuple((each.version, each.learned_until, each.state_sha256) for each in manifests)


def choose(snapshots: Snapshots) -> list[Manifest]:
    """Return the manifests of the versions that a backup holds, newest first. The lock is held."""
    folder = snapshots.folder
    manifests = list(folder.manifests())
    durable = [each.version for each in manifests if each.durable and folder.is_on_disk(each.version)]
    wanted = {*durable[:DURABLE], *(each.version for each in snapshots.labels.read().values())}
    with suppress(CorruptSnapshot, NotFound):
        live = folder.live()
        wanted |= {live.version, live.previous} if live else set()
    return [each for each in manifests if each.version in wanted]


def link_tree(source: Path, target: Path) -> None:
    """Link every file of a folder."""
    for path in source.rglob("*"):
        relative = path.relative_to(source)
        if path.is_symlink():
            continue
        if path.is_file() and not any(part.startswith(".") for part in relative.parts):
            link(path, target / relative)
    live = source / "LIVE"
    if live.is_symlink():  # of a base
        target.mkdir(parents=True, exist_ok=True)
        (target / f"LIVE{LINK}").write_text(str(live.readlink()))


def link(path: Path, target: Path) -> None:
    """Give a file a second name, or copy it where the file system has no hard links. Raises FileNotFoundError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(path, target)


def list_files(aside: Path) -> Iterator[tuple[str, Path]]:
    """Yield (name of the member, file) of what was linked."""
    for path in sorted(aside.rglob("*")):
        if path.is_file():
            yield f"state/{path.relative_to(aside)}", path


def place_links(state: Path) -> None:
    """Turn the files that hold targets of links into links."""
    for path in [*state.rglob(f"*{LINK}")]:
        path.with_name(path.name.removesuffix(LINK)).symlink_to(path.read_text())
        path.unlink()


def cut_versions(settings: Settings, model: str, saved: SavedModel, until: int) -> None:
    """Delete the versions that have learned more than an offset, and let the newest of the others be live."""
    snapshots = snapshots_in(settings, model)
    folder = snapshots.folder
    kept = [version for version, learned_until, _ in saved.versions if learned_until <= until]
    for version, learned_until, _ in saved.versions:
        if learned_until > until:
            shutil.rmtree(folder.path / str(version), ignore_errors=True)
    for name in ("LIVE", "FROZEN", ROLLED_BACK):
        (folder.path / name).unlink(missing_ok=True)
    for path in (folder.path / "labels").glob("*"):
        if int(str(path.readlink()).partition(",")[0]) not in kept:
            path.unlink()
    if kept:
        folder.set_live(LiveVersion(max(kept)), durable=True)
