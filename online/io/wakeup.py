"""A wake-up between processes of one machine: `notify` wakes every listener on the same folder.

    serving --commit---> notify(events)     ...> learning wakes and reads the stream
    learning --publish-> notify(snapshots)  ...> every server wakes and reads LIVE

Each listener has a FIFO in the folder; `notify` writes one byte into each. A wake-up carries no data and may be lost:
listeners read the log or LIVE after every wake-up and after every timeout.
"""

import errno
import os
import select
import uuid
from contextlib import suppress
from pathlib import Path


class Wakeup:
    """The sending side, and the factory of listeners."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def notify(self) -> None:
        """Wake every listener. Never blocks and raises nothing: it follows what is done already, and may be lost.

        Removes the FIFOs of listeners that were killed.
        """
        with suppress(OSError):  # no file descriptor is free
            self._notify()

    def _notify(self) -> None:
        for path in self.folder.glob("*.bell"):
            try:
                end = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except FileNotFoundError:
                continue  # its listener has just closed
            except OSError as error:
                if error.errno == errno.ENXIO:  # no process has the other end open: the listener was killed
                    path.unlink(missing_ok=True)
                    continue
                raise
            try:
                os.write(end, b"!")
            except BlockingIOError:
                pass  # the pipe is full: the listener wakes anyway
            except BrokenPipeError:
                pass  # the listener closed between open and write
            finally:
                os.close(end)

    def listen(self) -> "Listener":
        """Return a listener, which must be closed."""
        return Listener(self.folder)


class Listener:
    """The receiving side. `fileno` lets select and asyncio's add_reader wait for it."""

    def __init__(self, folder: Path) -> None:
        name = uuid.uuid4().hex
        aside, self.path = folder / f"{name}.new", folder / f"{name}.bell"
        os.mkfifo(aside, 0o600)
        self._end = os.open(aside, os.O_RDWR | os.O_NONBLOCK)  # read-write: a FIFO without writers never reads as ended
        os.rename(aside, self.path)  # `notify` sees it only once it is open

    def fileno(self) -> int:
        """Return the descriptor that becomes readable with a wake-up."""
        return self._end

    def clear(self) -> None:
        """Discard all wake-ups so far."""
        try:
            while os.read(self._end, 4096):
                pass
        except BlockingIOError:
            return

    def wait(self, timeout_s: float) -> bool:
        """Wait for a wake-up; return whether one came within `timeout_s` seconds."""
        waiting = select.poll()  # `select` takes no descriptor above 1,023, which a thousand models have
        waiting.register(self._end, select.POLLIN)
        ready = waiting.poll(1000 * max(timeout_s, 0.0))
        if ready:
            self.clear()
        return bool(ready)

    def close(self) -> None:
        """Stop listening."""
        self.path.unlink(missing_ok=True)
        os.close(self._end)
