"""A model of hashed texts is served, taught and learned like any other."""

from pathlib import Path

from online.cli.access.stopped_service import learn_everything
from online.models import Example
from online.models.classifier import Classifier
from online.models.encoders.hashed import HASHED_EPOCH, hash_text
from online.settings import ModelSettings
from tests.api.auth.access import bearer, browse, build, new_key

WORDS = ModelSettings(name="words", kind="classifier", options={"text_features": "hashed"})
TAUGHT = {
    "where is my order": "order",
    "track my ORDER!": "order",
    "play some jazz": "music",
    "a song, please": "music",
}


def test_hashed_texts_are_learned_from_feedback(tmp_path: Path) -> None:
    app = build(tmp_path / "hashed", WORDS)
    with browse(app):
        client = browse(app, **bearer(new_key(app, "predict", "feedback", "curate", name="carl")))
        for text, label in TAUGHT.items():
            asked = client.post("/v1/models/words:predict", json={"instances": [text]}).json()
            item = {"prediction_id": asked["prediction_ids"][0], "label": label}
            assert client.post("/v1/models/words:feedback", json={"feedback": [item]}).status_code == 202
    workspace = app.state.runtime.workspace
    learn_everything(workspace)
    snapshots = workspace.snapshots("words")
    manifest = snapshots.folder.manifest(snapshots.folder.live().version)
    direct = Classifier(WORDS.options)
    direct.learn([Example(n, "label", hash_text(text), label) for n, (text, label) in enumerate(TAUGHT.items())])
    assert manifest.feature_epoch == HASHED_EPOCH
    assert manifest.state_sha256 == direct.fingerprint()
