"""A wake-up between processes of one machine: `ring()` is heard by everyone who listens on the same folder.

    serving --commit--> ring(stream bell)    ....> learning wakes, reads the stream
    learning --publish-> ring(snapshot bell) ....> every server wakes, reads LIVE

Each listener owns a FIFO in the folder; ringing writes one byte into each. A bell carries no data and may be missed:
whoever listens looks at the truth (the log, LIVE) after every ring and after every timeout.
"""

import errno
import os
import select
import uuid
from pathlib import Path


class Doorbell:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def ring(self) -> None:
        """Wake every listener. Never blocks; listeners that died are swept away."""
        for path in self.folder.glob("*.bell"):
            try:
                end = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except FileNotFoundError:
                continue  # its listener has just left
            except OSError as error:
                if error.errno == errno.ENXIO:  # nobody has the other end open: its listener was killed
                    path.unlink(missing_ok=True)
                    continue
                raise
            try:
                os.write(end, b"!")
            except BlockingIOError:
                pass  # the pipe is full of rings: the listener will wake anyway
            except BrokenPipeError:
                pass  # it left between open and write
            finally:
                os.close(end)

    def listen(self) -> "Listener":
        return Listener(self.folder)


class Listener:
    """One end of the bell. `fileno()` makes it fit select and asyncio's add_reader."""

    def __init__(self, folder: Path) -> None:
        name = uuid.uuid4().hex
        aside, self.path = folder / f"{name}.new", folder / f"{name}.bell"
        os.mkfifo(aside, 0o600)
        self._end = os.open(aside, os.O_RDWR | os.O_NONBLOCK)  # read-write: a FIFO without writers never reads as ended
        os.rename(aside, self.path)  # seen by ringers only once it is open

    def fileno(self) -> int:
        return self._end

    def clear(self) -> None:
        """Take every ring so far."""
        try:
            while os.read(self._end, 4096):
                pass
        except BlockingIOError:
            return

    def wait(self, timeout_s: float) -> bool:
        """True when the bell rang within `timeout_s` seconds."""
        ready, _, _ = select.select([self._end], [], [], max(timeout_s, 0.0))
        if ready:
            self.clear()
        return bool(ready)

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self._end)
