"""The tuned text encoders in a state folder, each named by the sha256 of its file.

the store names one --is it here?--> <state>/encoders/<sha256>.safetensors
                      | no
                      +--> plugins fetch it from where it was tuned (the hook `encoder_source`)
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from online.errors import Unavailable
from online.io.cache import cache_folder
from online.io.locks import lock_file
from online.models import Encoder, Options
from online.models.encoders.factory import create_encoder

FetchEncoder = Callable[[str, Path], None]


class TunedEncoders:
    """The folder of tuned encoders. find_sources: returns what may bring one that is not here."""

    def __init__(self, folder: Path, find_sources: Callable[[], Sequence[FetchEncoder]] = tuple) -> None:
        self.folder, self.find_sources = folder, find_sources

    def find(self, encoder: str) -> Path | None:
        """Return where the file of a tuned encoder is, or will be; None for the frozen one (an empty name)."""
        return self.folder / f"{encoder}.safetensors" if encoder else None

    def obtain(self, encoder: str) -> Path | None:
        """Return the file of a tuned encoder, fetched if it is not here; None for the frozen one. Slow.

        One process of this state folder fetches it, and the others wait. Raises Unavailable.
        """
        path = self.find(encoder)
        if path is None or path.exists():
            return path
        self.folder.mkdir(exist_ok=True)
        with lock_file(self.folder / ".fetch.lock"):
            if not path.exists():
                self._fetch(encoder, path)
        return path

    def _fetch(self, encoder: str, path: Path) -> None:
        refusals = list[str]()
        for fetch in self.find_sources():
            try:
                fetch(encoder, path)
            except Unavailable as error:
                refusals.append(str(error))
                continue
            return
        raise Unavailable(
            f"the tuned text encoder {encoder} is not in {self.folder}, and was not fetched: "
            f"{'; '.join(refusals) or 'nothing fetches encoders here'}; start the replica that has it, or copy its file"
        )

    def create(self, options: Options, encoder: str, threads: int, max_chars: int) -> Encoder:
        """Return an encoder of texts. options: those that an encoder reads. Raises ValueError, FileNotFoundError or Unavailable."""
        created: Encoder = create_encoder(options, cache_folder(), threads, max_chars, self.obtain(encoder))
        return created
