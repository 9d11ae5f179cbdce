"""The folder of files that can be downloaded or computed again."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder for files that can be downloaded or computed again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "online"
