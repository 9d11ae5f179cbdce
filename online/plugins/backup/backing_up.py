"""Write a backup while the service runs.

1. predictions that wait in the journal of this machine go into the store
2. the files of the state folder are linked aside: what they have learned is in the log by then
3. every table is read at one moment of the store: on SQLite from a copy that its backup API makes, on Postgres in one
   transaction with the isolation REPEATABLE READ
4. the manifest ends the file, which gets its name
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
from sqlalchemy import Connection
from sqlalchemy.engine import make_url

from online import __version__
from online.errors import BadInput, SetupError, Unavailable
from online.io.progress import Progress
from online.plugins.backup.archive import ArchiveWriter, BackupManifest, SavedModel, SavedTable, finish, write_archive
from online.plugins.backup.snapshot_files import link_files, list_files
from online.plugins.backup.tables import count_rows, list_tables, read_heads, read_pages, read_revisions
from online.settings import Settings
from online.state.workspace import Workspace
from online.store import Store, now
from online.store.database.engine import is_sqlite
from online.store.database.inspection import check_current

Versions = dict[str, tuple[tuple[int, int, str], ...]]


def write_backup(settings: Settings, path: Path, with_keys: bool, tick: Progress) -> BackupManifest:
    """Write a backup, and return its manifest. Nothing stays of one that is interrupted.

    with_keys: whether the signing keys of the state folder go with it. Raises BadInput for a file that exists, SetupError for a
    store that is not of this release, and Unavailable.
    """
    if path.exists():
        raise BadInput(f"{path} exists; name a new file, or delete this one first")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent}; create it, or name another file")
    check_current(settings.store_url)
    has_folder = (settings.state / "keys.json").exists()
    if is_sqlite(settings.store_url) and not has_folder:
        raise SetupError(f"there is no state folder {settings.state}; name the right one with --state")
    if has_folder:
        copy_journal(settings)
    place = settings.state if has_folder else path.parent
    with write_archive(path) as archive, tempfile.TemporaryDirectory(prefix=".backup-", dir=place) as folder:
        aside = Path(folder)
        versions = link_files(settings, aside / "state", with_keys) if has_folder else {}
        with open_copy(settings.store_url, aside) as store:
            return store.read(
                lambda connection: write_members(archive, connection, store.instance, aside, versions, tick)
            )


def copy_journal(settings: Settings) -> None:
    """Bring predictions that were answered before into the store."""
    workspace = Workspace(settings)
    try:
        workspace.copy_journal()
    finally:
        workspace.store.close()


@contextmanager
def open_copy(url: str, aside: Path) -> Iterator[Store]:
    """Yield the store, or on SQLite a copy of it as it is now, so that no reader keeps the WAL from starting over."""
    if is_sqlite(url):
        copy = aside / "online.db"
        try:
            with (
                closing(sqlite3.connect(f"file:{make_url(url).database}?mode=ro", uri=True)) as source,
                closing(sqlite3.connect(copy)) as target,
            ):
                source.backup(target)
        except sqlite3.Error as error:
            raise Unavailable(f"the store cannot be copied: {error}; see the free disk space") from error
        url = f"sqlite:///{copy}"
    with closing(Store(url)) as store:
        yield store


def write_members(
    archive: ArchiveWriter, connection: Connection, instance: str, aside: Path, versions: Versions, tick: Progress
) -> BackupManifest:
    """Write the tables, the files and the manifest."""
    tables, written, done = list_tables(), dict[str, SavedTable](), 0
    total = count_rows(connection, tables)
    for table in tables:
        rows = 0
        for number, page in enumerate(read_pages(connection, table)):
            archive.add(f"tables/{table.name}/{number:06}.msgpack", msgspec.msgpack.encode(page))
            rows, done = rows + len(page), done + len(page)
            tick(f"reading {table.name}", done, max(total, done))
        written[table.name] = SavedTable(tuple(table.columns.keys()), rows)
    heads = read_heads(connection)
    state = aside / "state"
    for name, file in list_files(state):
        tick(f"reading {name}", total, max(total, 1))
        archive.add_file(name, file)
    models = {
        model: SavedModel(heads.get(model, 0), versions.get(model, ())) for model in heads.keys() | versions.keys()
    }
    manifest = BackupManifest(
        release=__version__,
        created_at=now(),
        instance=instance,
        revisions=read_revisions(),
        tables=written,
        models=models,
        has_keys=(state / "keys.json").exists(),
        sha256=archive.sha256,
    )
    finish(archive, manifest)
    shutil.rmtree(state, ignore_errors=True)
    return manifest
