"""The adapters of a base model in a folder, and the name of the one in force.

    adapters/
        active                       "adapter-0123456789abcdef", or "" for the base model
        adapter-0123456789abcdef/    adapter_config.json, adapter_model.safetensors

An adapter is named after the sha256 of its files, so a name always means the same weights. It appears in one step, and so
does each change of `active`: a reader sees all of it, or nothing.
"""

import hashlib
import os
import re
import shutil
from pathlib import Path

from online.errors import BadInput, NotFound

BASE = ""  # in place of an adapter's name: the base model without an adapter
ACTIVE = "active"
FILES = ("adapter_config.json", "adapter_model.safetensors")
NAME = re.compile(r"adapter-[0-9a-f]{16}")


class AdapterFolder:
    """A folder of adapters. It is created where it is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def list_names(self) -> list[str]:
        """Return the names of all adapters, the oldest first."""
        paths = [path for path in self.path.iterdir() if NAME.fullmatch(path.name)]
        return [path.name for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))]

    def find(self, name: str) -> Path:
        """Return the folder of an adapter. Raises NotFound."""
        path = self.path / name
        if not NAME.fullmatch(name) or not path.is_dir():
            raise NotFound(f"there is no adapter {name[:100]!r} in {self.path}; list them with online-adapters list")
        return path

    def verify(self, name: str) -> Path:
        """Return the folder of an adapter whose files are those that it is named after. Raises NotFound, BadInput."""
        path = self.find(name)
        if (found := compute_name(path)) != name:
            raise BadInput(
                f"the files of {path} belong to {found}: they were changed; delete the folder, or restore it"
            )
        return path

    def read_active(self) -> str:
        """Return the name of the adapter in force, or BASE. Raises BadInput."""
        try:
            name = (self.path / ACTIVE).read_text().strip()
        except FileNotFoundError:
            return BASE
        if name != BASE and not NAME.fullmatch(name):
            raise BadInput(f"{self.path / ACTIVE} has no adapter's name; run online-adapters activate")
        return name

    def activate(self, name: str) -> None:
        """Put an adapter in force, or BASE. Raises NotFound, BadInput."""
        if name != BASE:
            self.verify(name)
        temporary = self.path / f".{ACTIVE}-{os.getpid()}"
        with open(temporary, "w") as file:
            file.write(name)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path / ACTIVE)
        sync_folder(self.path)

    def add(self, source: Path) -> str:
        """Copy the adapter that PEFT has saved into a folder; return its name. Raises BadInput."""
        name = compute_name(source)
        if (self.path / name).exists():
            return name
        temporary = self.path / f".{name}-{os.getpid()}"
        temporary.mkdir()
        try:
            for file in FILES:
                shutil.copyfile(source / file, temporary / file)
                with open(temporary / file, "rb") as copied:
                    os.fsync(copied.fileno())
            sync_folder(temporary)
            os.rename(temporary, self.path / name)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        sync_folder(self.path)
        return name


def compute_name(path: Path) -> str:
    """Return the name of the adapter whose files a folder has. Raises BadInput."""
    digest = hashlib.sha256()
    for file in FILES:
        try:
            content = (path / file).read_bytes()
        except OSError:
            raise BadInput(
                f"{path} has no readable {file}; give a folder that PEFT has saved an adapter into"
            ) from None
        digest.update(f"{file} {len(content)}\n".encode())
        digest.update(content)
    return f"adapter-{digest.hexdigest()[:16]}"


def sync_folder(path: Path) -> None:
    """Write the entries of a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
