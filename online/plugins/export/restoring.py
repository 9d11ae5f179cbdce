"""Restores a version so that it can be exported: with what it holds out, and the encoder it was learned with."""

from collections.abc import Sequence

from online.errors import Conflict
from online.models import Model, Options, create
from online.models.retirement import unwrap
from online.plugins.export.exporter import RestoredVersion, list_labelled
from online.plugins.export.golden import ServedModel
from online.plugins.export.manifest import ExportSubject
from online.serving.version_loader import VersionLoader
from online.snapshots.manifest import Manifest
from online.state.workspace import Workspace


def restore(workspace: Workspace, loader: VersionLoader, number: int) -> RestoredVersion:
    """Slow: it reads every file of the version.

    Raises NotFound, CorruptSnapshot, or Conflict for a version of another kind or other options.
    """
    loaded = loader.snapshots.folder.load(number, serving_only=False)
    manifest = loaded.manifest
    config = loader.find_config(manifest.recipe, any_encoder=True)
    if config is None:
        raise Conflict(f"version {number} of {manifest.model} was created by another kind or with other options")
    model = create(loader.kind, {**config.options, **loader.source.key_option()})
    model.restore(loaded.parts)
    subject = ExportSubject(
        manifest.model,
        number,
        loader.kind,
        manifest.learned_until,
        manifest.state_sha256,
        manifest.weights_sha256,
        manifest.feature_epoch,
    )
    tuned = workspace.encoders.obtain(config.encoder_name)
    options = {**config.options, **loader.source.key_option()}
    held_out = () if manifest.durable else find_held_out(loader, manifest, options)
    return RestoredVersion(subject, config.options, ServedModel(model, config.encoder.encode), tuned, held_out)


def find_held_out(loader: VersionLoader, manifest: Manifest, options: Options) -> Sequence[tuple[bytes, str]]:
    """Return what the newest durable version until this one holds out: a version that is not durable keeps no examples."""
    for loaded in loader.snapshots.folder.durable(manifest.recipe):
        earlier = loaded.manifest
        if earlier.learned_until <= manifest.learned_until and earlier.feature_epoch == manifest.feature_epoch:
            model = create(loader.kind, options)
            model.restore(loaded.parts)
            return list_labelled(as_inner(model))
    return ()


def as_inner(model: Model) -> Model:
    """Return the model inside the wrapper of retired classes."""
    return unwrap(model)
