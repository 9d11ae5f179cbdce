"""A Redis and a Postgres of one test, which may be killed, stopped, emptied and replaced by a standby that lacks the last commits.

Nothing here imports pytest. MissingServer says what is not installed.
"""

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from tests.cluster.local_cluster import LOOPBACK, find_free_port, wait_for

START_S = 30.0
POSTGRES = Path("/usr/lib/postgresql")
FAST = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "autovacuum=off",
    "max_connections=400",
)  # for data that nobody keeps


class MissingServer(RuntimeError):
    """A server is not installed here, or cannot run."""


class OwnRedis:
    """A `redis-server` without persistence, on a port that it keeps."""

    def __init__(self, folder: Path) -> None:
        """Raises MissingServer."""
        self.folder, self.port = folder, find_free_port()
        self.url = f"redis://{LOOPBACK}:{self.port}/0"
        self.client: Any = Redis(port=self.port, socket_timeout=10)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, empty."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = ["redis-server", "--port", str(self.port), "--save", "", "--dir", str(self.folder)]
        try:
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        except FileNotFoundError:
            raise MissingServer("redis-server is not installed") from None
        wait_for(self._answers, START_S, "answer of Redis")

    def _answers(self) -> bool:
        with suppress(RedisError):
            return bool(self.client.ping())
        return False

    def signal(self, number: int) -> None:
        """Send it a signal, as SIGSTOP."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it; what it held is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def find_copy(self) -> str:
        """Return the key of the only copy of a log; "" while there is none."""
        keys = [key for key in self.client.scan_iter("online:*stream:vec") if self.client.type(key) == b"stream"]
        return keys[0].decode() if keys else ""

    def copied_until(self) -> int:
        """Return the last offset of a copy without gaps; 0 without one."""
        with suppress(RedisError):
            if key := self.find_copy():
                rows = self.client.xrevrange(key, count=1)
                offset = int(rows[0][0].split(b"-")[0]) if rows else 0
                return offset if self.client.xlen(key) == offset else 0
        return 0


class OwnPostgres:
    """A cluster of Postgres in a temporary folder, and standbys of it. Only user postgres may run one, so it takes root."""

    def __init__(self) -> None:
        """Raises MissingServer."""
        found = sorted(POSTGRES.glob("*/bin"), key=lambda path: int(path.parent.name))
        if not found or os.geteuid() or shutil.which("runuser") is None:
            raise MissingServer("a Postgres of the test takes root, runuser, and the programs of Postgres")
        self.programs = found[-1]
        self.folder = Path(tempfile.mkdtemp(prefix="online-postgres-"))
        shutil.chown(self.folder, "postgres")
        self.port, self._data = find_free_port(), self.folder / "primary"
        self._run("initdb", "-D", str(self._data), "-A", "trust", "--no-sync")
        self.start()

    @property
    def url(self) -> str:
        """The URL of its database."""
        return f"postgresql+psycopg://postgres@{LOOPBACK}:{self.port}/postgres"

    def start(self) -> None:
        """Start it, also again."""
        self._start(self._data, self.port)

    def stop(self) -> None:
        """End it at once, as the loss of its machine does."""
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-W", "stop")
        wait_for(
            lambda: not (self._data / "postmaster.pid").exists() or not self._is_running(), START_S, "end of Postgres"
        )

    def add_standby(self) -> "Standby":
        """Start a standby that follows; return it once it has everything."""
        data, port = self.folder / "standby", find_free_port()
        source = ("-h", LOOPBACK, "-p", str(self.port), "-U", "postgres")
        self._run("pg_basebackup", "-D", str(data), "-R", "-X", "stream", "-c", "fast", *source)
        self._start(data, port)
        return Standby(self, data, port)

    def close(self) -> None:
        """End everything, and remove it."""
        for data in self.folder.glob("*/postmaster.pid"):
            with suppress(MissingServer):
                self._run("pg_ctl", "-D", str(data.parent), "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_running(self) -> bool:
        with suppress(OSError, ValueError, IndexError):
            os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), 0)
            return True
        return False

    def _start(self, data: Path, port: int) -> None:
        options = " ".join(f"-c {each}" for each in (f"port={port}", f"unix_socket_directories={self.folder}", *FAST))
        self._run("pg_ctl", "-D", str(data), "-l", str(self.folder / f"log-{port}"), "-w", "-o", options, "start")

    def _run(self, program: str, *arguments: str) -> None:
        command = ["runuser", "-u", "postgres", "--", str(self.programs / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=120, check=False)
        if done.returncode:
            raise MissingServer(f"{program} failed: {done.stderr.strip() or done.stdout.strip()}")


class Standby:
    """A standby: it follows until `stop_following`, and takes over with `promote`."""

    def __init__(self, primary: OwnPostgres, data: Path, port: int) -> None:
        self.primary, self.data, self.port = primary, data, port

    @property
    def url(self) -> str:
        """The URL of its database."""
        return f"postgresql+psycopg://postgres@{LOOPBACK}:{self.port}/postgres"

    def stop_following(self) -> None:
        """Receive no later commit: the way to the primary is gone."""
        import psycopg

        with psycopg.connect(f"host={LOOPBACK} port={self.port} user=postgres", autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
            gone = "SELECT count(*) FROM pg_stat_wal_receiver"
            wait_for(lambda: connection.execute(gone).fetchone() == (0,), START_S, "end of the replication")

    def promote(self) -> None:
        """Become the primary."""
        self.primary._run("pg_ctl", "-D", str(self.data), "-w", "promote")
