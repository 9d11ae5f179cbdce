"""Restore a backup into an empty store and an empty state folder.

1. every member is compared with the manifest, and the target is checked: until then nothing is changed
2. the files go into a folder beside the state folder, the rows into the store in one transaction
3. the folder gets its name, then the transaction is committed

With offsets to restore until, what follows them in the log is left out, with what belongs to it (`Cut`).
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import msgspec
from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError

from online.errors import BadInput, SetupError
from online.io.atomic import sync_folder
from online.io.progress import Progress
from online.plugins.backup.archive import MANIFEST, BackupManifest, open_archive, verify_archive
from online.plugins.backup.snapshot_files import cut_versions, place_links
from online.plugins.backup.tables import (
    Cut,
    empty_meta,
    find_filled,
    finish_cut,
    list_tables,
    read_revisions,
    write_page,
)
from online.settings import Settings
from online.snapshots import BASE
from online.snapshots.manifest import Manifest
from online.store import Store
from online.store.database.engine import is_sqlite, unavailable, without_password

NOTHING_CHANGED = "nothing was changed"


def restore_backup(settings: Settings, path: Path, until: Mapping[str, int], tick: Progress) -> BackupManifest:
    """Restore a backup; return its manifest.

    until: model -> the last offset to restore; all of the log by default. Raises BadInput for a file that is damaged, or of another
    release, or for an offset that it does not have, and SetupError for a target that is not empty.
    """
    check_folder(settings.state)
    manifest = verify_archive(path, tick)
    check_release(path, manifest)
    check_offsets(manifest, until)
    aside = settings.state.resolve().with_name(f".{settings.state.resolve().name}.restore-{os.getpid()}")
    target = settings.model_copy(update={"state": aside})
    aside.mkdir(parents=True, mode=0o700)
    try:
        write_files(path, aside, tick)
        check_base(aside, until)
        place_links(aside)
        for model, offset in until.items():
            cut_versions(target, model, manifest.models[model], offset)
        write_rows(target, settings, path, manifest, until, tick)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return manifest


def check_folder(state: Path) -> None:
    """Raise SetupError unless the state folder is empty or does not exist."""
    if state.exists() and (not state.is_dir() or any(state.iterdir())):
        raise SetupError(
            f"the state folder {state} is not empty; {NOTHING_CHANGED}: stop the service and move the folder away, or name another "
            "one with --state"
        )


def check_release(path: Path, manifest: BackupManifest) -> None:
    """Raise BadInput for a backup whose tables are not those of this release."""
    own = read_revisions()
    differing = sorted(name for name, revision in manifest.revisions.items() if own.get(name) != revision)
    if differing:
        raise BadInput(
            f"{path} was written by release {manifest.release}, whose tables of {differing[0]!r} are at revision "
            f"{manifest.revisions[differing[0]]!r}, and not {own.get(differing[0])!r}; {NOTHING_CHANGED}: restore it with that release "
            "(and its plugins), then start this one, which migrates it"
        )


def check_offsets(manifest: BackupManifest, until: Mapping[str, int]) -> None:
    """Raise BadInput for an offset that the backup does not have."""
    for model, offset in until.items():
        saved = manifest.models.get(model)
        if saved is None:
            raise BadInput(f"the backup has no model {model!r}; it has {', '.join(sorted(manifest.models)) or 'none'}")
        if not 0 <= offset <= saved.head:
            raise BadInput(f"--until {model}={offset}: the log of the backup has the offsets 0 to {saved.head}")


def check_base(aside: Path, until: Mapping[str, int]) -> None:
    """Raise BadInput where events after an offset have expired into the base, which cannot be undone."""
    for model, offset in until.items():
        for path in (aside / "snapshots" / model / BASE).glob("*/manifest.json"):
            learned = Manifest.parse(path.read_bytes()).learned_until
            if learned > offset:
                raise BadInput(
                    f"--until {model}={offset}: the contents of events until offset {learned} had expired when the backup was made; "
                    f"{NOTHING_CHANGED}: choose an offset from {learned} on"
                )


def write_files(path: Path, aside: Path, tick: Progress) -> None:
    """Write the files of the state folder."""
    with open_archive(path) as members:
        for name, file, _ in members:
            if name.startswith("state/"):
                target = aside / name.removeprefix("state/")
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                with open(target, "xb", opener=lambda each, flags: os.open(each, flags, 0o600)) as written:
                    shutil.copyfileobj(file, written)
                    written.flush()
                    os.fsync(written.fileno())
                tick(f"writing {name}", 0, 1)


def write_rows(
    target: Settings, settings: Settings, path: Path, manifest: BackupManifest, until: Mapping[str, int], tick: Progress
) -> None:
    """Write all rows in one transaction, at whose end the state folder gets its name. Raises SetupError for a store with rows."""
    newest = {
        model: max((version for version, learned, _ in manifest.models[model].versions if learned <= offset), default=0)
        for model, offset in until.items()
    }
    with closing(Store(target.store_url)) as store:
        try:
            with store.durable_writer.begin() as connection:  # in this thread: an interruption undoes everything
                check_empty(connection, store.url)
                write_all(connection, path, manifest, Cut(until, newest), tick)
                for model, offset in until.items():
                    finish_cut(connection, model, offset)
                if store.is_shared:
                    place_folder(target.state, settings.state)
        except DBAPIError as error:
            raise unavailable(error) from error
    if is_sqlite(target.store_url):
        place_folder(target.state, settings.state)


def check_empty(connection: Connection, url: str) -> None:
    """Raise SetupError for a store that has rows."""
    filled = find_filled(connection)
    if filled is not None:
        raise SetupError(
            f"the store {without_password(url)} is not empty: its table {filled!r} has rows; {NOTHING_CHANGED}: name an empty database "
            "with --store"
        )


def write_all(connection: Connection, path: Path, manifest: BackupManifest, cut: Cut, tick: Progress) -> None:
    """Write the rows of every table that the backup has."""
    tables = {table.name: table for table in list_tables()}
    total, done = sum(each.rows for each in manifest.tables.values()), 0
    empty_meta(connection)
    with open_archive(path) as members:
        for name, file, _ in members:
            if not name.startswith("tables/") or name == MANIFEST:
                continue
            table = tables[name.split("/")[1]]
            rows = read_rows(file, manifest.tables[table.name].columns)
            write_page(connection, table, [*keep_rows(table, rows, cut)])
            done += len(rows)
            tick(f"writing {table.name}", done, max(total, 1))


def read_rows(file: IO[bytes], columns: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the rows of a member by the names of their columns."""
    return [dict(zip(columns, row, strict=True)) for row in msgspec.msgpack.decode(file.read())]


def keep_rows(table: Table, rows: list[dict[str, Any]], cut: Cut) -> Iterator[dict[str, Any]]:
    """Yield the rows that are restored, as they are to be written."""
    for row in rows:
        kept = cut.keep(table.name, row)
        if kept is not None:
            yield kept


def place_folder(aside: Path, state: Path) -> None:
    """Give the folder the name of the state folder, which is empty or does not exist."""
    state = state.resolve()
    if state.exists():
        state.rmdir()
    os.replace(aside, state)
    sync_folder(state.parent)
