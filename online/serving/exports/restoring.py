"""Restores a version so that it can be exported: with what it holds out, and the encoder it was learned with."""

from online.errors import Conflict
from online.models import create
from online.models.export.exporter import RestoredVersion
from online.models.export.golden import Served
from online.models.export.manifest import Subject
from online.serving.version_loader import VersionLoader
from online.workspace import Workspace


def restore(workspace: Workspace, loader: VersionLoader, number: int) -> RestoredVersion:
    """Slow: it reads every file of the version.

    Raises NotFound, CorruptSnapshot, or Conflict for a version of another kind or other options.
    """
    loaded = loader.snapshots.load(number, serving_only=False)
    manifest = loaded.manifest
    config = loader.find_config(manifest.recipe, any_encoder=True)
    if config is None:
        raise Conflict(f"version {number} of {manifest.model} was created by another kind or with other options")
    model = create(loader.kind, {**config.options, **loader.source.key_option()})
    model.restore(loaded.parts)
    subject = Subject(
        manifest.model,
        number,
        loader.kind,
        manifest.learned_until,
        manifest.state_sha256,
        manifest.weights_sha256,
        manifest.feature_epoch,
    )
    tuned = workspace.tuned(config.encoder_name)
    return RestoredVersion(subject, config.options, Served(model, config.encoder.encode), tuned)
