"""Versions as serving sees them: a loaded version, how a caller selects one, and where its options come from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from online.models import Answer, Encoder, Model, Options
from online.serving.devices.replica import Replica
from online.snapshots.folder import LoadedSnapshot


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """A version that answers. It is immutable, and only ever replaced as a whole.

    loaded: the snapshot it was loaded from; None for version 0, a model that has learned nothing. replica: answers in place
    of the model, which lies on an accelerator; None on the CPU.
    """

    model: Model
    encoder: Encoder
    version: int
    learned_until: int
    weights_sha256: str
    loaded: LoadedSnapshot | None = None
    replica: Replica | None = None

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Return the answers of the model, on whatever device has memory for them."""
        return self.model.predict(inputs, keys) if self.replica is None else self.replica.predict(inputs, keys)


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """The options with which new versions are created, their digest, and the encoder that they name."""

    options: Options
    recipe: str
    encoder: Encoder

    @property
    def encoder_name(self) -> str:
        """The name of a tuned encoder, as the store has it; "" for the original one."""
        return str(self.options.get("encoder", ""))


@dataclass(frozen=True, slots=True)
class VersionSelector:
    """The version that a caller asks for: by number, by label, or neither.

    With neither, the live version answers, or the canary for its share of the traffic. The share is
    drawn by `route`: the same route always gets the same one.
    """

    version: int | None = None
    label: str | None = None
    route: str | None = None


class OptionsSource(Protocol):
    """The source of a model's options and encoders. Slow: never on the event loop."""

    def options(self) -> Options:
        """Return the present options. Raises Unavailable if the store does not answer."""

    def key_option(self) -> Options:
        """Return the present keys, for a model whose state is signed. This is quick."""

    def others(self) -> Iterator[Options]:
        """Return the options with each encoder that is still on disk."""

    def announced(self) -> Options | None:
        """Return the options that are about to come into use, if that was announced. This is quick."""

    def encoder(self, options: Options) -> Encoder:
        """Return the same encoder for the same options. Raises ValueError, FileNotFoundError or Unavailable."""
