"""The base of a model where several replicas share the store: one base, which is in the store, and in the folder of each replica.

    a base was made here --share--> store: does it continue the one that is there?   yes: it is that of all replicas
                                                                                     no: take over the one that is there
    a replica joins, or another one has made a base --sync--> <state>/snapshots/<model>/base/

Contents of events are removed only until where the base in the store has learned. So a folder may be lost at any time. Where one
service has the store, its folder has the base, and nothing is done here.
"""

import hashlib
import logging
import shutil
from functools import partial
from pathlib import Path

from online.errors import CorruptSnapshot, Unavailable
from online.io.atomic import sync_folder, write_file
from online.snapshots import Snapshots
from online.snapshots.folder import MANIFEST, SIGNATURE, LiveVersion
from online.snapshots.manifest import Manifest, SnapshotFile
from online.snapshots.publish import put_on_disk
from online.state.base_snapshot import find_base
from online.store import Store
from online.store.bases import CHUNK_BYTES, StoredBase, load_chunk, load_stored_base, save_base, save_chunk
from online.telemetry import log_event

log = logging.getLogger("online.state")


class SharedBase:
    """The base of one model and recipe, in the store and in the folder."""

    def __init__(self, snapshots: Snapshots, store: Store, recipe: str) -> None:
        self.snapshots, self.store, self.recipe = snapshots, store, recipe

    def find_stored(self) -> StoredBase | None:
        """Return the base in the store; None if there is none, or if one service has the store. Raises Unavailable."""
        if not self.store.is_shared:
            return None
        load = partial(load_stored_base, model=self.snapshots.model, recipe=self.recipe)
        found: StoredBase | None = self.store.read(load)
        return found

    def sync(self, is_damaged: bool = False) -> bool:
        """Bring the folder to the base in the store; return whether that has changed it. Raises Unavailable or CorruptSnapshot.

        A base that is further than that of the store, and continues it, is shared: its replica was killed before. is_damaged:
        whether that in the folder cannot be used.
        """
        if not self.store.is_shared:
            return False
        stored, find = self.find_stored(), partial(find_base, snapshots=self.snapshots, recipe=self.recipe)
        own = None if is_damaged else self.store.read(find)
        if own is not None and (stored is None or stored.text != self._read(own).text):
            is_next = stored is None or own.parent == stored.manifest.version
            if is_next and self._save(own):
                return False
        if stored is None or (own is not None and stored.text == self._read(own).text):
            return False
        self._install(stored)
        return True

    def share(self, base: Manifest) -> bool:
        """Let a base of the folder be that of all replicas; return False if another was first, which is then here. Raises Unavailable."""
        if not self.store.is_shared or self._save(base):
            return True
        stored = self.find_stored()
        if stored is not None:
            self._install(stored)
        return False

    def _read(self, base: Manifest) -> StoredBase:
        folder = self.snapshots.base().folder
        path = folder.path / str(base.version)
        seal = (path / SIGNATURE).read_text() if folder.seal is not None else ""
        return StoredBase((path / MANIFEST).read_text(), seal)

    def _save(self, base: Manifest) -> bool:
        model, path = self.snapshots.model, self.snapshots.base().folder.path / str(base.version)
        for name, file in base.files.items():
            data = (path / f"{name}.safetensors").read_bytes()
            for number, start in enumerate(range(0, len(data), CHUNK_BYTES)):
                chunk = data[start : start + CHUNK_BYTES]
                save = partial(save_chunk, model=model, sha256=file.sha256, number=number, data=chunk)
                self.store.submit(save, is_background=True).result()
        is_saved: bool = self.store.submit(partial(save_base, model=model, base=self._read(base))).result()
        if is_saved:
            log_event(log, "base shared", model=model, learned_until=base.learned_until)
        return is_saved

    def _install(self, stored: StoredBase) -> None:
        """Let the base of the store take the place of that in the folder."""
        bases = self.snapshots.base()
        folder, manifest = bases.folder, stored.manifest
        aside = folder.path / f".{manifest.version}.part"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        for name, file in manifest.files.items():
            self._fetch(file, aside / f"{name}.safetensors")
        write_file(aside / MANIFEST, stored.text.encode(), durable=False)
        if folder.seal is not None:
            write_file(aside / SIGNATURE, stored.seal.encode(), durable=False)
        put_on_disk(aside)
        with folder.locked():
            for version in folder.versions():
                (folder.path / str(version)).rename(folder.path / f".{version}.gone")
            aside.rename(folder.path / str(manifest.version))
            folder.set_live(LiveVersion(manifest.version), durable=True)
        for path in folder.path.glob(".*.gone"):
            shutil.rmtree(path, ignore_errors=True)
        folder.forget_facts(manifest.version)
        sync_folder(folder.path)
        facts = {"learned_until": manifest.learned_until}
        log_event(log, "base of another replica taken over", model=self.snapshots.model, **facts)

    def _fetch(self, file: SnapshotFile, target: Path) -> None:
        """Write a file of the base in the store. Raises Unavailable where another base has replaced it meanwhile."""
        model, digest, size, number = self.snapshots.model, hashlib.sha256(), 0, 0
        with target.open("wb") as out:
            while size < file.bytes:
                chunk = self.store.read(partial(load_chunk, model=model, sha256=file.sha256, number=number))
                if chunk is None:
                    raise Unavailable(f"the base of {model} in the store was replaced while it was read; try again")
                out.write(chunk)
                digest.update(chunk)
                size, number = size + len(chunk), number + 1
        if digest.hexdigest() != file.sha256:
            raise CorruptSnapshot(
                f"the base of {model} in the store is damaged: a file does not match its sha256 {file.sha256}; restore the store"
            )
