"""A version that is restored for an export."""

from dataclasses import replace
from pathlib import Path

from online.plugins.export.exporter import export
from online.plugins.export.formats import find_format
from online.plugins.export.restoring import restore
from online.serving.encoder_sources import EncoderCache, ModelSource
from online.serving.version_loader import VersionLoader
from tests.learning.scene import Scene, vector_events


def test_a_version_that_is_not_durable_is_judged_on_what_the_durable_one_before_holds_out(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.learn(*vector_events(400))
    scene.learner.save()
    scene.learner.publisher.setup = replace(scene.learner.setup, durable_every_s=1e9)
    scene.learn(*vector_events(20, 400))
    live = scene.snapshots.folder.live()
    assert live is not None and not scene.snapshots.folder.manifest(live.version).durable
    (spec,) = scene.workspace.settings.models
    loader = VersionLoader(
        spec.kind, ModelSource(scene.workspace, spec, EncoderCache(scene.workspace)), scene.snapshots
    )
    measured = export(restore(scene.workspace, loader, live.version), find_format("onnx")).manifest.measured
    assert measured is not None and measured.served_accuracy is not None
    assert measured.labelled_count > 20 and measured.accuracy == measured.served_accuracy > 0.9
