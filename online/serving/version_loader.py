"""Loads versions from their snapshots, with the encoder they were learned with.

    snapshot --verify--> recipe = present options?  --yes--> model with the present encoder
                                                    --no---> model with an earlier encoder, or None

A version is warmed up with recent inputs: one that cannot predict is refused like a damaged one.
Everything here may read from disk, so it runs in threads.
"""

import logging
from collections.abc import Iterable, Sequence

from online.errors import Conflict, CorruptSnapshot, NotFound, Unavailable
from online.models import Model, Options, create, recipe
from online.serving.devices.replica import ServingPlace
from online.serving.versions import EncoderConfig, OptionsSource, ServedVersion
from online.snapshots import Snapshots
from online.snapshots.folder import LoadedSnapshot
from online.telemetry import log_event

log = logging.getLogger("online.live")


class VersionLoader:
    """Loads the versions of one model.

    config: the options of new versions, as the store has them. upcoming: the announced next one,
    held so that its encoder is loaded when it is needed. damaged: why versions are refused, by
    number. foreign: versions of another kind or other options.
    """

    def __init__(
        self, kind: str, source: OptionsSource, snapshots: Snapshots, place: ServingPlace | None = None
    ) -> None:
        """place: the devices on which versions answer; None: the CPU. Raises what `source` raises."""
        self.place = place or ServingPlace()
        self.kind, self.source, self.snapshots = kind, source, snapshots
        self.config = self.build_config(source.options())
        self.upcoming: EncoderConfig | None = None
        self.damaged: dict[int, str] = {}
        self.foreign: set[int] = set()

    def build_config(self, options: Options) -> EncoderConfig:
        """Return the encoder and the recipe of options."""
        return EncoderConfig(options, recipe(self.kind, options), self.source.encoder(options))

    def refresh_config(self) -> None:
        """Read the present options. Raises Unavailable if they, or their encoder, cannot be read."""
        options = self.source.options()
        if recipe(self.kind, options) == self.config.recipe:
            return
        try:
            self.config = self.build_config(options)
        except (ValueError, OSError) as error:
            raise Unavailable(f"the encoder of {self.snapshots.model} cannot be loaded: {error}") from error
        log_event(log, "encoder changed", model=self.snapshots.model, encoder=self.config.encoder_name[:16] or "frozen")

    def prepare(self, options: Options) -> None:
        """Load the encoder of announced options."""
        try:
            self.upcoming = self.build_config(options)
        except (ValueError, OSError, Unavailable) as error:  # it is loaded again, and reported, when it comes into use
            log_event(
                log, "announced encoder not loaded", logging.WARNING, model=self.snapshots.model, reason=str(error)
            )

    def load(
        self, version: int, known: LoadedSnapshot | None, warm_up: Sequence[bytes], any_encoder: bool = False
    ) -> ServedVersion | None:
        """Load one version; None if it was created by another kind or with other options.

        known: a snapshot whose files are reused where they are equal. warm_up: inputs that it must
        answer. any_encoder: also accept a version made with an earlier encoder. Raises NotFound and
        CorruptSnapshot.
        """
        loaded = self.snapshots.folder.load(version, known=known)
        config = self.find_config(loaded.manifest.recipe, any_encoder)
        if config is None:
            return None
        options = {**config.options, **self.source.key_option()}

        def create_restored(device: str) -> Model:
            model = create(self.kind, options, device)
            model.restore(loaded.parts)
            return model

        try:
            model, replica = self.place.load(create_restored, warm_up)
        except Exception as error:  # of any sort: in service it would be a caller's error
            raise CorruptSnapshot(f"version {version} cannot predict: {error}") from error
        manifest = loaded.manifest
        until, weights = manifest.learned_until, manifest.weights_sha256
        return ServedVersion(model, config.encoder, version, until, weights, loaded, replica)

    def load_others(
        self, versions: Iterable[int], known: LoadedSnapshot | None, warm_up: Sequence[bytes]
    ) -> dict[int, ServedVersion]:
        """Load versions, with any encoder; those that cannot be loaded are noted and left out."""
        found = {}
        for version in sorted(versions):
            try:
                served = self.load(version, known, warm_up, any_encoder=True)
            except NotFound:
                continue
            except CorruptSnapshot as error:
                self.refuse(version, error)
                continue
            if served is None:
                self.foreign.add(version)
            else:
                found[version] = served
        return found

    def load_newest(self, known: LoadedSnapshot | None, warm_up: Sequence[bytes]) -> ServedVersion | None:
        """Return the newest version that can be loaded and was made with the present options."""
        for version in reversed(self.snapshots.folder.versions()):
            try:
                served = self.load(version, known, warm_up)
            except (CorruptSnapshot, NotFound) as error:
                self.damaged[version] = str(error)
                continue
            if served is not None:
                return served
        return None

    def load_one(self, version: int, known: LoadedSnapshot | None, warm_up: Sequence[bytes]) -> ServedVersion:
        """Load a version. Raises NotFound, CorruptSnapshot, or Conflict for a version of another kind or other options."""
        served = self.load(version, known, warm_up, any_encoder=True)
        if served is None:
            raise Conflict(
                f"version {version} of {self.snapshots.model} was created by another kind or with other options"
            )
        return served

    def refuse(self, version: int, error: CorruptSnapshot) -> None:
        """Note that a version is damaged, so that it is not tried again."""
        self.damaged[version] = str(error)
        facts = {"model": self.snapshots.model, "version": version, "reason": str(error)}
        log_event(log, "version refused", logging.ERROR, **facts)

    def find_config(self, wanted: str, any_encoder: bool) -> EncoderConfig | None:
        """Return what a version of this recipe was made with, as far as it can still be made."""
        if wanted != self.config.recipe:
            self.refresh_config()
        if wanted == self.config.recipe:
            return self.config
        return self._find_earlier_config(wanted) if any_encoder else None

    def _find_earlier_config(self, wanted: str) -> EncoderConfig | None:
        options = (each for each in self.source.others() if recipe(self.kind, each) == wanted)
        try:
            return next(map(self.build_config, options), None)
        except (ValueError, OSError) as error:
            raise CorruptSnapshot(f"the encoder of a version cannot be loaded: {error}") from error
