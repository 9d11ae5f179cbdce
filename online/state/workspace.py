"""The state folder: what it holds, and how each part is opened. Serving and learning open the same one.

<state>/online.db                  the store (unless a URL says otherwise)
<state>/snapshots/<model>/         versions and LIVE
<state>/journal/                   predictions on their way into the store
<state>/bells/{events,snapshots}-<model>/   wake-ups between processes
<state>/encoders/                  tuned text encoders, each named by its sha256
<state>/keys.json                  keys that sign links, cookies, river states, entries in Redis, ...: its own, or a copy
<state>/audit.head                 the newest entry of the audit log
<state>/replica                    the name of this service among those that share the store
<state>/encoders/<model>.next      names the encoder that is about to be adopted
<state>/reports/<model>/           reports on its log: <last offset>.html, and <last offset>.de.html in German
<state>/replays/<id>/              an uploaded log until its replay is done; then the report
<state>/jobs/<id>.json             a batch prediction job and its state
<state>/exports/<model>/           versions in formats that answer elsewhere; each can be exported again
<state>/exports/<model>/encoder/   its tuned text encoders as small files for devices
<state>/service.lock               the service that answers for this folder: the first one that was started
<state>/learner.lock               one learner at a time
<state>/adapt.lock                 one encoder tuning at a time
"""

import json
import os
import secrets
import shutil
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any

from online.errors import OnlineError, SetupError
from online.installed import collect
from online.io.atomic import replace_file
from online.io.locks import lock_file
from online.io.private import make_private
from online.io.wakeup import Wakeup
from online.models import Encoder, admit_all, encoder_options, kinds_of, state_is_signed
from online.models.encoders.text import with_encoder
from online.settings import ModelSettings, Settings, reveal
from online.snapshots import ManifestSeal, Snapshots
from online.state.audit_log import AuditLog
from online.state.shared_keys import SharedKeys
from online.state.signing_keys import SigningKeys
from online.state.tuned_encoders import TunedEncoders
from online.store import Store
from online.store.database.meta import load_kind, save_kind
from online.store.encoder_moves import check_encoder, encoder_of
from online.store.events import head_of
from online.store.journal_copy import IsErased, JournalCopy, copy_all, is_kept_always, remove_damaged
from online.stream.contract import Stream
from online.stream.redis import RedisStream
from online.stream.sql import SqlStream
from online.stream.verified import VerifiedStream

POLL_S, MAX_POLL_S = 0.25, 10.0  # of each model
MODELS_POLLED = 10  # at that rate
DERIVED = ("reports", "replays", "exports", "jobs")  # folders


class Workspace:
    """Opens the state folder and the store. Raises SetupError if either cannot be used."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state = settings.state.resolve()
        try:
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_is_writable()
            make_private(self.state)
        except OSError as error:
            raise self._describe(error) from None
        self._admit_own_kinds()
        self.store = Store(settings.store_url)  # before the keys: it refuses what another version wrote
        self.is_new = is_new = not (self.state / "keys.json").exists()
        try:
            self.shared_keys = SharedKeys(self.store, self.state, reveal(settings.secret))
            self.keys = self.shared_keys.keys
            self.audit = AuditLog(self.store, self.state, self.keys)
            if is_new:
                self.audit.join()
        except (OSError, OnlineError) as error:
            self.store.close()
            raise (self._describe(error) if isinstance(error, OSError) else error) from None
        self.encoders = TunedEncoders(self.state / "encoders", lambda: collect("encoder_source", self))
        self._load_encoder = lru_cache(maxsize=8)(self._create_encoder)

    def _admit_own_kinds(self) -> None:
        """Import the kinds of models that the operator brings."""
        try:
            admit_all((model.kind, model.options) for model in self.settings.models)
        except ValueError as error:
            raise SetupError(f"a model of the settings cannot be used: {error}") from None

    def _describe(self, error: OSError) -> SetupError:
        return SetupError(
            f"the state folder {self.settings.state} is not writable: {error.strerror}; choose another with --state"
        )

    def _check_is_writable(self) -> None:
        probe = self.state / f".probe.{os.getpid()}"
        probe.touch()
        probe.unlink()

    def options(self, model: ModelSettings) -> dict[str, Any]:
        """Return the model's options, with its keys if its state is signed, and its tuned encoder."""
        if state_is_signed(model.kind):
            return {**model.options, **self.key_option(model)}
        if "encoder" in model.options:
            raise SetupError(f"model {model.name!r}: the option 'encoder' is set by `online adapt`, not in a file")
        tuned = self.store.read(lambda connection: encoder_of(connection, model.name))
        return with_encoder(model.options, tuned) | self.key_option(model)

    def key_option(self, model: ModelSettings) -> dict[str, str]:
        """Return the present keys for the model's state, as an option; nothing if its state is not signed."""
        return {"key": self.keys.derive_keys("river", model.name)} if is_signed(model) else {}

    def check_kinds(self) -> None:
        """Raise SetupError if a model has a history in this state that another kind has learned.

        Options may change: then all is learned again. Another kind cannot learn the same events.
        """
        for model in self.settings.models:
            before = self._kind_before(model)
            if before not in (None, model.kind):
                raise SetupError(
                    f"model {model.name!r} is configured as a {model.kind}, but the state folder {self.settings.state} "
                    f'holds its history as a {before}; set kind = "{before}" again, or give the new model another '
                    "name, or choose another folder with --state"
                )
            if before is None:
                self.store.submit(partial(save_kind, model=model.name, kind=model.kind)).result()

    def _kind_before(self, model: ModelSettings) -> str | None:
        """Return the kind that the history of a model was learned as; None if it has no history, or it is unknown."""
        saved: str | None = self.store.read(lambda connection: load_kind(connection, model.name))
        head = self.store.read(lambda connection: head_of(connection, model.name))
        snapshots = self.snapshots(model.name)
        if not head and not snapshots.folder.versions():
            return model.kind if saved == model.kind else None
        return saved

    def check_keys(self) -> None:
        """Raise SetupError if another replica serves the store with other signing keys. Raises Unavailable."""
        self.shared_keys.check()

    def refresh_from_store(self) -> None:
        """Take over signing keys that another replica has rotated. Slow: never on the event loop.

        Raises Unavailable, and SetupError for keys that this replica cannot read.
        """
        self.shared_keys.refresh()

    @property
    def poll_s(self) -> float:
        """How often something is looked for without a wake-up, which may be lost: more seldom where there are many models."""
        return min(max(POLL_S, POLL_S * len(self.settings.models) / MODELS_POLLED), MAX_POLL_S)

    @property
    def replica(self) -> str:
        """The name of this service among those that share the store: of the machine, with a part that only this folder has."""
        path = self.state / "replica"
        with suppress(FileNotFoundError):
            return path.read_text()
        with lock_file(self.state / "replica.lock"):
            if not path.exists():
                replace_file(path, f"{socket.gethostname()[:40]}-{secrets.token_hex(3)}".encode(), durable=True)
        return path.read_text()

    @property
    def journal(self) -> Path:
        """The folder of the journal."""
        return self.state / "journal"

    def journal_copy(self) -> JournalCopy:
        """Return copies the journal of predictions into the store."""
        return JournalCopy(self.journal, self._encode)

    def copy_journal(self) -> None:
        """Return once every prediction that was answered before is in the store. Raises Unavailable."""
        copy_all(self.store, self.journal_copy())

    def empty_journal(self, is_erased: IsErased = is_kept_always) -> None:
        """Also delete every file that holds what was written to the journal before. Raises Unavailable.

        is_erased: which predictions are not copied.
        """
        copy_all(self.store, JournalCopy(self.journal, self._encode, is_erased), is_sealing=True)
        remove_damaged(self.journal)

    def discard_derived_files(self) -> list[str]:
        """Delete all that can be made again or belongs to nobody else: reports, exports, uploads, and records of jobs."""
        removed = [name for name in DERIVED if (self.state / name).exists()]
        for name in removed:
            shutil.rmtree(self.state / name, ignore_errors=True)
        return removed

    def _encode(self, model: str, encoder: str, inputs: Sequence[str]) -> list[bytes]:
        """Return the features of texts by an encoder that replaced the one they were recorded with."""
        spec = self.settings.model(model)
        if spec is None:  # it is not configured any more: nobody learns from these
            return [b"" for _ in inputs]
        return self._load_encoder(model, encoder).encode([json.loads(each) for each in inputs])

    def _create_encoder(self, model: str, encoder: str) -> Encoder:
        spec = self.settings.model(model)
        assert spec is not None, "only configured models have encoders"
        options = encoder_options(spec.kind, with_encoder(spec.options, encoder))
        return self.encoders.create(options, encoder, self.settings.encoder_threads, self.settings.max_text_chars)

    def tuned(self, encoder: str) -> Path | None:
        """Return where the file of a tuned encoder is; None for the frozen one (an empty name)."""
        return self.encoders.find(encoder)

    def announce_encoder(self, model: str, encoder: str) -> None:
        """Let servers load an encoder in advance; the store decides when it is in use."""
        self.encoders.folder.mkdir(exist_ok=True)
        replace_file(self.encoders.folder / f"{model}.next", encoder.encode(), durable=False)

    def announced_encoder(self, model: str) -> str | None:
        """Return the encoder that is being adopted; None if there is none."""
        try:
            return (self.encoders.folder / f"{model}.next").read_text()
        except FileNotFoundError:
            return None

    def exports(self, model: str) -> Path:
        """Return the folder of a model's exports."""
        return self.state / "exports" / model

    def event_wakeup(self, model: str) -> Wakeup:
        """Return the wake-up of a model's new events."""
        return Wakeup(self.state / "bells" / f"events-{model}")

    def snapshots(self, model: str) -> Snapshots:
        """Return the snapshots of a model."""
        return snapshots_in(self.settings, model)

    def sql_stream(self, model: str, encoder: str | None = None) -> SqlStream:
        """encoder: if given, a read raises EncoderMoved if another encoder computed the features."""
        ends = self.store.durable_writer, self.store.reader, model, self.event_wakeup(model)
        if encoder is None:
            return SqlStream(*ends, poll_s=self.poll_s)
        return SqlStream(*ends, lambda connection: check_encoder(connection, model, encoder), self.poll_s)

    def redis_stream(self, model: str, encoder: str) -> RedisStream | None:
        """Return the copy in Redis, if one is configured. Each encoder has a copy of its own."""
        url, name = self.settings.stream, f"{self.store.instance}{encoder and ':'}{encoder[:16]}"
        try:
            return (
                RedisStream(url, model, f"online:{name}", bytes.fromhex(self.keys.valid_keys("stream")[0].secret))
                if url
                else None
            )
        except ValueError as error:
            raise SetupError(f"the stream must be a redis:// URL: {error}") from None

    def stream(self, model: str, encoder: str) -> Stream:
        """Return the stream that the learner reads, with features of this encoder only."""
        copy, source = self.redis_stream(model, encoder), self.sql_stream(model, encoder)
        return VerifiedStream(copy, source) if copy is not None else source

    def lock_service(self) -> IO[str] | None:
        """Become the service of this state folder while the file is open; None where another process is. Raises SetupError."""
        try:
            return lock_file(self.state / "service.lock", wait=False)
        except BlockingIOError:
            return None
        except OSError as error:
            raise self._describe(error) from None

    def lock_learner(self, wait: bool) -> IO[str]:
        """Lock out other learners while the file is open. If another holds the lock, wait, or raise SetupError."""
        return self._lock("learner.lock", wait, "another learner is at work on it")

    def lock_adapting(self) -> IO[str]:
        """Lock out other encoder tunings while the file is open. Raises SetupError if one is running."""
        return self._lock("adapt.lock", False, "another `online adapt` is at work on it")

    def _lock(self, name: str, wait: bool, taken: str) -> IO[str]:
        """Lock a file of the state folder until it is closed, or until this process ends."""
        try:
            return lock_file(self.state / name, wait)
        except BlockingIOError:
            raise SetupError(f"the state folder {self.settings.state} is in use: {taken}") from None


def snapshots_in(settings: Settings, model: str) -> Snapshots:
    """Return a model's snapshots without opening the store."""
    state, spec = settings.state.resolve(), settings.model(model)
    wakeup = Wakeup(state / "bells" / f"snapshots-{model}")
    seal = create_seal(SigningKeys(state)) if spec is not None and is_signed(spec) else None
    return Snapshots(state / "snapshots" / model, model, wakeup, settings.retain, seal)


def create_seal(keys: SigningKeys) -> ManifestSeal:
    """Signs and checks the manifests of models whose states hold pickles."""
    return ManifestSeal(partial(keys.sign, "river"), partial(keys.check, "river"))


def is_signed(model: ModelSettings) -> bool:
    """Return whether the state of the model, or of one that its options add, is signed."""
    return any(spec.state_is_signed for spec in kinds_of(model.kind, model.options))


def name_translation(page: Path, language: str) -> Path:
    """Return the file of a report in a language: report.html is in English, report.de.html in German."""
    return page if language == "en" else page.with_suffix(f".{language}{page.suffix}")
