"""Checks of this machine: the settings, the state folder, its disk, and the files of the live versions."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from online.errors import CorruptSnapshot, NotFound, OnlineError
from online.io.private import OTHERS
from online.plugins.cluster.doctor.findings import CheckFinding, ok, problem, warning
from online.serving.disk_space import find_floor, measure_space
from online.settings import Settings
from online.state.workspace import snapshots_in
from online.store.database.engine import is_sqlite

MOUNTS = Path("/proc/self/mounts")
REMOTE = {
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "gfs2",
    "glusterfs",
    "lustre",
    "nfs",
    "nfs4",
    "smb3",
    "smbfs",
    "virtiofs",
}
REMOTE_FUSE = ("fuse.ceph", "fuse.glusterfs", "fuse.gcsfuse", "fuse.s3fs", "fuse.sshfs", "fuse.rclone")


def check_settings(settings: Settings) -> Iterator[CheckFinding]:
    """Yield what is worth knowing about the settings. Invalid ones are refused before."""
    yield ok(
        "settings", f"valid: {len(settings.models)} models ({', '.join(each.name for each in settings.models[:5])})"
    )
    public = str(settings.public_url or "")
    if public.startswith("https:") and settings.tls_certificate is None and not settings.trusted_proxies:
        yield warning(
            "settings",
            f"public_url is {public}, so that a proxy must be in front, but trusted_proxies is empty: limits for each address count all clients "
            "as one, and cookies are not marked as secure",
            "set trusted_proxies to the address of the proxy, such as 127.0.0.1",
        )


def check_state(settings: Settings) -> Iterator[CheckFinding]:
    """Yield what is right and wrong with the state folder."""
    folder = settings.state.resolve()
    if not folder.is_dir():
        yield warning(
            "state folder",
            f"there is no folder {folder}: no service has run on this machine with these settings",
            "name the right folder with --state; if the service is new, start it",
        )
        return
    yield from check_permissions(folder)
    yield check_file_system(folder, is_sqlite(settings.store_url), read_mounts())
    yield check_disk(folder, settings.min_free_bytes)


def check_permissions(folder: Path) -> Iterator[CheckFinding]:
    """Yield whether this user can write the state folder, and others cannot read it."""
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        owner = folder.stat().st_uid
        yield problem(
            "state folder",
            f"{folder} is not writable for the user {os.getuid()}: it belongs to user {owner}",
            f"run the service, and this command, as user {owner}, or change the owner with chown",
        )
        return
    paths = [folder, *(folder / name for name in ("keys.json", "online.db", "audit.head", "journal", "snapshots"))]
    exposed = [path for path in paths if path.exists() and stat.S_IMODE(path.lstat().st_mode) & OTHERS]
    if exposed:
        yield warning(
            "state folder",
            f"other users of this machine may read {', '.join(str(path) for path in exposed)}",
            f"chmod -R go= {folder}; the service does so at its next start as well",
        )
    else:
        yield ok("state folder", f"{folder} is writable, and private to this user")


def check_file_system(folder: Path, holds_store: bool, mounts: str) -> CheckFinding:
    """Return whether the state folder is on a disk of this machine. mounts: the text of /proc/self/mounts."""
    kind = find_file_system(folder, mounts)
    if kind in REMOTE or kind.startswith(REMOTE_FUSE):
        what = (
            "SQLite, locks and renames are not reliable there"
            if holds_store
            else "locks and renames are not reliable there"
        )
        return problem(
            "state folder",
            f"{folder} is on a network file system ({kind}): {what}",
            "choose a folder on a local disk with --state; replicas share the store, not the folder",
        )
    if kind in ("tmpfs", "ramfs"):
        lost = "all data is" if holds_store else "predictions that are not in the store yet are"
        return warning(
            "state folder",
            f"{folder} is in memory ({kind}): {lost} lost when the machine stops",
            "choose a folder on a disk",
        )
    return ok("state folder", f"on a local file system ({kind or 'unknown'})")


def find_file_system(folder: Path, mounts: str) -> str:
    """Return the type of the file system that holds a folder; "" where it is not known."""
    found, longest = "", -1
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace("\\040", " "))
        if folder.is_relative_to(point) and len(point.parts) >= longest:
            found, longest = fields[2], len(point.parts)
    return found


def read_mounts() -> str:
    """Return the table of mounted file systems; "" where the system has none."""
    try:
        return MOUNTS.read_text()
    except OSError:
        return ""


def check_disk(folder: Path, min_free_bytes: int | None) -> CheckFinding:
    """Return whether the disk has enough room. min_free_bytes: the setting."""
    free, total = measure_space(folder)
    floor = find_floor(min_free_bytes, total)
    text = f"{free / 1e9:.1f} GB of {total / 1e9:.1f} GB are free"
    if free < floor:
        return problem(
            "disk",
            f"{text}, less than {floor / 1e9:.1f} GB (min_free_bytes): feedback is refused with status 507",
            "make room on the disk",
        )
    if free < 2 * floor:
        return warning(
            "disk", f"{text}; below {floor / 1e9:.1f} GB (min_free_bytes) feedback is refused", "make room on the disk"
        )
    return ok("disk", text)


def check_live_files(settings: Settings) -> Iterator[CheckFinding]:
    """Yield for each model whether the files of the version that answers on this machine are undamaged."""
    if not (settings.state / "keys.json").exists():
        return
    for spec in settings.models:
        subject = f"model {spec.name}"
        if not (settings.state / "snapshots" / spec.name).is_dir():
            continue
        try:
            snapshots = snapshots_in(settings, spec.name)
            live = snapshots.folder.live()
            if live is None:
                yield ok(subject, "no version was published in this folder yet")
                continue
            manifest = snapshots.folder.load(live.version).manifest
        except (CorruptSnapshot, NotFound) as error:
            yield problem(
                subject,
                f"the live version of this folder is damaged: {error}",
                "the service goes on with another version, and learns a new one; if it does not, `online rollback`",
            )
            continue
        except (OnlineError, OSError) as error:
            yield warning(subject, f"the live version cannot be checked: {error}", "see the message")
            continue
        yield ok(
            subject,
            f"version {live.version} has the sha256 of its manifest in every file, state {manifest.state_sha256[:12]}",
        )
