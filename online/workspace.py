"""The state folder: where each thing lies, and how it is opened. Serving and learning open the same one.

<state>/online.db                  the store (unless a URL says otherwise)
<state>/snapshots/<model>/         versions and LIVE
<state>/bells/{events,snapshots}-<model>/
<state>/encoders/                  text encoders that were tuned, each named by its sha256
<state>/secret                     signs what may not come from elsewhere
<state>/encoders/<model>.next      names the one that is about to be taken up
<state>/reports/<model>/           pages of its log: <offset they tell up to>.html
<state>/replays/<id>/              a log that was sent to be replayed, until that is done; then its report
<state>/jobs/<id>.json             a batch prediction job that was asked for, and what became of it
<state>/learner.lock               one learner at a time
<state>/adapt.lock                 one who tunes encoders at a time
"""

import fcntl
import os
import re
import secrets
from pathlib import Path
from typing import IO, Any

from online.doorbell import Doorbell
from online.errors import SetupError
from online.models import challenger_of, signed
from online.models.encoder import with_encoder
from online.settings import ModelSettings, Settings
from online.snapshots import Snapshots, write
from online.store import Store, check_encoder, encoder_of
from online.stream import RedisStream, SqlStream, Stream


class Workspace:
    """Raises SetupError when the folder cannot be used."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state = settings.state.resolve()
        try:
            self.state.mkdir(parents=True, exist_ok=True)
            self.secret = self._secret()
        except OSError as error:
            raise SetupError(
                f"the state folder {settings.state} is not writable: {error.strerror}; choose another with --state"
            ) from None
        self.store = Store(settings.store_url)

    def _secret(self) -> str:
        path = self.state / "secret"
        if not path.exists():
            aside = self.state / f".secret.{os.getpid()}"
            write(aside, secrets.token_hex(32).encode(), durable=True)
            aside.chmod(0o600)
            try:
                os.link(aside, path)  # the first of two starters wins
            except FileExistsError:
                pass
            finally:
                aside.unlink()
        probe = self.state / f".probe.{os.getpid()}"
        probe.touch()
        probe.unlink()
        secret = path.read_text().strip()
        if not re.fullmatch("[0-9a-f]{64}", secret):
            raise SetupError(f"the file {self.settings.state}/secret is damaged; without it river models learn anew")
        return secret

    def options(self, model: ModelSettings) -> dict[str, Any]:
        """The model's options, with the secret for those that sign their state, and the encoder that was tuned."""
        if signed(model.kind):
            return {**model.options, "key": self.secret}
        key = {"key": self.secret} if signed(challenger_of(model.kind, model.options)) else {}
        if "encoder" in model.options:
            raise SetupError(f"model {model.name!r}: the option 'encoder' is set by `online adapt`, not in a file")
        tuned = self.store.read(lambda connection: encoder_of(connection, model.name))
        return with_encoder(model.options, tuned) | key

    @property
    def encoders(self) -> Path:
        return self.state / "encoders"

    def tuned(self, encoder: str) -> Path | None:
        """The file of a tuned encoder, by its name; None for the frozen one."""
        return self.encoders / f"{encoder}.safetensors" if encoder else None

    def announce_encoder(self, model: str, encoder: str) -> None:
        """Tell servers to have it at hand; it is the store that says when it is in use."""
        self.encoders.mkdir(exist_ok=True)
        aside = self.encoders / f".{model}.next"
        write(aside, encoder.encode(), durable=False)
        aside.replace(self.encoders / f"{model}.next")

    def announced_encoder(self, model: str) -> str | None:
        try:
            return (self.encoders / f"{model}.next").read_text()
        except FileNotFoundError:
            return None

    def reports(self, model: str) -> Path:
        return self.state / "reports" / model

    @property
    def replays(self) -> Path:
        return self.state / "replays"

    @property
    def jobs(self) -> Path:
        return self.state / "jobs"

    def event_bell(self, model: str) -> Doorbell:
        return Doorbell(self.state / "bells" / f"events-{model}")

    def snapshots(self, model: str) -> Snapshots:
        return snapshots_in(self.settings, model)

    def sql_stream(self, model: str, encoder: str | None = None) -> SqlStream:
        """encoder: a read raises EncoderMoved where the features are not of this one."""
        ends = self.store.durable_writer, self.store.reader, model, self.event_bell(model)
        if encoder is None:
            return SqlStream(*ends)
        return SqlStream(*ends, lambda connection: check_encoder(connection, model, encoder))

    def redis_stream(self, model: str, encoder: str) -> RedisStream | None:
        """The copy in Redis: features of another encoder are another copy."""
        url, name = self.settings.stream, f"{self.store.instance}{encoder and ':'}{encoder[:16]}"
        try:
            return RedisStream(url, model, f"online:{name}") if url else None
        except ValueError as error:
            raise SetupError(f"the stream must be a redis:// URL: {error}") from None

    def stream(self, model: str, encoder: str) -> Stream:
        """What the learner reads: features of this encoder alone."""
        return self.redis_stream(model, encoder) or self.sql_stream(model, encoder)

    def lock_learner(self, wait: bool) -> IO[str]:
        """Held while the file is open. Where another learner holds it: wait for its end, or raise SetupError."""
        mode = fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)
        return self._locked("learner.lock", mode, "another learner is at work on it")

    def lock_adapting(self) -> IO[str]:
        """Held while the file is open. Raises SetupError where another holds it."""
        return self._locked("adapt.lock", fcntl.LOCK_EX | fcntl.LOCK_NB, "another `online adapt` is at work on it")

    def _locked(self, name: str, mode: int, taken: str) -> IO[str]:
        file = open(self.state / name, "a+")
        try:
            fcntl.flock(file, mode)
        except BlockingIOError:
            file.close()
            raise SetupError(f"the state folder {self.settings.state} is in use: {taken}") from None
        return file


def snapshots_in(settings: Settings, model: str) -> Snapshots:
    """A model's snapshots, without opening the store."""
    state = settings.state.resolve()
    bell = Doorbell(state / "bells" / f"snapshots-{model}")
    return Snapshots(state / "snapshots" / model, model, bell, settings.retain)


def cache_folder() -> Path:
    """Where what can be made again is kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "online"
