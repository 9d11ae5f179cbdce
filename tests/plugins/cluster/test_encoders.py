"""A tuned text encoder that one replica has adopted: the others fetch it by its sha256, serve with it and learn with it."""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from online.errors import NotFound, Unavailable
from online.models.encoders import minilm
from online.plugins.cluster.stored_source import StoredSource
from online.plugins.cluster.transfers import WrongContent
from online.plugins.encoder_tuning.adoption import adopt
from online.settings import load
from online.state.tuned_encoders import TunedEncoders
from online.state.workspace import Workspace
from tests.plugins.cluster.replicas import CuttingProxy, Replica, run_replica
from tests.support import Service, until

DATA = bytes(range(256)) * 4_000
SHA256 = hashlib.sha256(DATA).hexdigest()
SECRET = "a secret of the test, long enough"
CONFIG = """
store = "{url}"

[[models]]
name = "bar"
kind = "classifier"
golden_questions = [{{ input = "a cup of tea", answer = "tea" }}]
"""
TEXTS = {"a cup of tea": "tea", "black tea with milk": "tea", "a glass of rum": "rum", "dark rum, no ice": "rum"}


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    with run_replica(tmp_path_factory.mktemp("replica") / "state") as running:
        folder: Path = running.app.state.runtime.workspace.encoders.folder
        folder.mkdir()
        (folder / f"{SHA256}.safetensors").write_bytes(DATA)
        yield running


def test_an_encoder_is_fetched_from_another_replica_and_resumed_after_a_cut(replica: Replica, tmp_path: Path) -> None:
    target = tmp_path / f"{SHA256}.safetensors"
    with httpx.Client(trust_env=False) as client, CuttingProxy(httpx.URL(replica.url).port or 0) as proxy:
        source = replica.source(client, proxy.url)
        proxy.limit = len(DATA) // 2
        with pytest.raises(Unavailable):
            source.fetch_encoder(SHA256, target)
        assert not target.exists()
        proxy.limit, before = 0, proxy.forwarded
        source.fetch_encoder(SHA256, target)
        assert target.read_bytes() == DATA and proxy.forwarded - before < len(DATA)
        with pytest.raises(NotFound, match="no tuned encoder"):
            source.fetch_encoder("0" * 64, target)


def test_only_replicas_may_read_encoders(replica: Replica) -> None:
    assert httpx.get(f"{replica.url}/v1/peers/encoders/{SHA256}", trust_env=False).status_code == 401


def test_a_bucket_keeps_encoders(replica: Replica, tmp_path: Path) -> None:
    bucket = StoredSource(f"file://{tmp_path / 'bucket'}", "instance", replica.keys)
    target = tmp_path / "fetched"
    with pytest.raises(NotFound):
        bucket.fetch_encoder(SHA256, target)
    (tmp_path / "local").write_bytes(DATA)
    for _ in range(2):
        bucket.upload_encoder(SHA256, tmp_path / "local")
    bucket.fetch_encoder(SHA256, target)
    assert target.read_bytes() == DATA
    with pytest.raises(WrongContent, match="does not match"):
        bucket.upload_encoder("0" * 64, tmp_path / "local")


def test_an_encoder_that_nobody_has_is_named_with_the_remedy(tmp_path: Path) -> None:
    encoders = TunedEncoders(tmp_path / "encoders")
    assert encoders.obtain("") is None
    with pytest.raises(Unavailable, match=f"{SHA256} is not in .* copy its file"):
        encoders.obtain(SHA256)


def give_all(service: Service) -> int:
    return service.client("bar").feedback([{"input": text, "label": drink} for text, drink in TEXTS.items()])[-1][
        "offset"
    ]


def adopt_on(service: Service) -> str:
    """Adopt an encoder that differs from the frozen one; return its name."""
    settings = load(service.state.parent / f"{service.state.name}.toml", state=service.state)
    workspace = Workspace(settings)
    with closing(workspace.store):
        weights = minilm.read_weights(minilm.package_folder())
        name = f"encoder.layer.{minilm.LAYERS - 1}.output.dense.weight"
        tuned = minilm.write_tuned(workspace.encoders.folder, {name: weights[name] * 1.5})
        adopt(workspace, settings.models[0], tuned, lambda what, done, of: None)
        return tuned.stem


def test_replicas_that_run_and_that_join_serve_and_learn_with_an_encoder_that_one_has_adopted(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONLINE_SECRET", SECRET)
    services = [Service(tmp_path / name, CONFIG.format(url=postgres_url)) for name in ("first", "second")]
    try:
        end = give_all(services[0])
        for service in services:
            service.client("bar").wait_until_learned(end, 60)
        encoder = adopt_on(services[0])
        services.append(Service(tmp_path / "joined", CONFIG.format(url=postgres_url)))
        end = give_all(services[1])
        for service in services:
            service.client("bar").wait_until_learned(end, 60)
            until(lambda: service.versions("bar")[0]["learned_until"] >= end, what="the newest version")  # noqa: B023
            assert (service.state / "encoders" / f"{encoder}.safetensors").exists()
            assert service.client("bar").predict(["a cup of tea"])["predictions"][0]["label"] == "tea"
        states = {str(service.versions("bar")[0]["state_sha256"]) for service in services}
        assert len(states) == 1 and not any("diverged" in service.output for service in services)
        assert encoder[:16] in str(services[2].versions("bar")[0]["feature_epoch"])
        assert all("learner failed" not in service.output for service in services)
    finally:
        for service in services:
            service.stop()
