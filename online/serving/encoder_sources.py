"""Finds the options and the encoder of a model: in the settings, and among the encoders tuned for it.

These calls are slow (an encoder is loaded from disk, the store is read), so they never run on the event loop.
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakValueDictionary

from online.models import Encoder, Options, can_tune_encoder, encoder_options
from online.models.encoders.text import with_encoder
from online.settings import ModelSettings
from online.state.workspace import Workspace


class EncoderCache:
    """Loads every encoder once, however many models use it, and keeps it while any of them does."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.settings = workspace, workspace.settings
        self._loaded: WeakValueDictionary[str, Encoder] = WeakValueDictionary()
        self._loading = threading.Lock()

    def encoder(self, kind: str, options: Options) -> Encoder:
        """Return the encoder of these options. Raises ValueError or FileNotFoundError if there is none, and Unavailable."""
        read = encoder_options(kind, options)
        tuned = str(options.get("encoder", ""))
        key = json.dumps([tuned, read])
        with self._loading:
            loaded: Encoder | None = self._loaded.get(key)
            if loaded is None:
                threads, max_chars = self.settings.encoder_threads, self.settings.max_text_chars
                loaded = self.workspace.encoders.create(read, tuned, threads, max_chars)
                self._loaded[key] = loaded
            return loaded


@dataclass(frozen=True, slots=True)
class ModelSource:
    """The options and encoders of one model of a workspace; an `OptionsSource` of `LiveModel`."""

    workspace: Workspace
    spec: ModelSettings
    encoders: EncoderCache

    def options(self) -> Options:
        """Return the model's options, with the encoder in use."""
        return self.workspace.options(self.spec)

    def key_option(self) -> Options:
        """Return the option with the key that signs states."""
        return self.workspace.key_option(self.spec)

    def others(self) -> Iterator[Options]:
        """Yield the options with every tuned encoder that exists."""
        if can_tune_encoder(self.spec.kind, self.spec.options):
            names = (path.stem for path in self.workspace.encoders.folder.glob("*.safetensors"))
            yield from (with_encoder(self.spec.options, name) for name in ("", *names))

    def announced(self) -> Options | None:
        """Return the options with the encoder that is being adopted; None if there is none."""
        name = (
            self.workspace.announced_encoder(self.spec.name)
            if can_tune_encoder(self.spec.kind, self.spec.options)
            else None
        )
        return None if name is None else with_encoder(self.spec.options, name)

    def encoder(self, options: Options) -> Encoder:
        """Return the encoder of the options, created once."""
        return self.encoders.encoder(self.spec.kind, options)
