"""The text encoder over REST: what a browser downloads to encode texts itself."""

import hashlib
import signal
from collections.abc import Iterator

import numpy as np
import onnxruntime
import pytest

from online.models.encoders import minilm
from tests.conftest import config
from tests.support import Service

CONFIG = """
[[models]]
name = "intents"
kind = "classifier"
[[models]]
name = "digits"
kind = "classifier"
options = { input = "vector", size = 4, scale = 1.0 }
[[models]]
name = "hashed"
kind = "classifier"
options = { text_features = "hashed" }
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("encoder")
    service = Service(folder / "state", config(folder, CONFIG))
    yield service
    service.stop(signal.SIGKILL)


@pytest.mark.long
def test_the_manifest_names_the_files_by_their_sha256(service: Service) -> None:
    manifest = service.http.get("/v1/models/intents/encoder").raise_for_status().json()
    assert {file["name"] for file in manifest["files"]} == {"model.onnx", "vocab.txt"}
    for file in manifest["files"]:
        answer = service.http.get(f"/v1/models/intents/encoder/{file['name']}").raise_for_status()
        assert (len(answer.content), hashlib.sha256(answer.content).hexdigest()) == (file["bytes"], file["sha256"])
        assert answer.headers["etag"] == f'"{file["sha256"]}"'


def test_a_file_that_the_browser_has_is_not_sent_again(service: Service) -> None:
    url = "/v1/models/intents/encoder/vocab.txt"
    tag = service.http.get(url).headers["etag"]
    again = service.http.get(url, headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


def test_a_download_that_was_interrupted_goes_on_where_it_stopped(service: Service) -> None:
    url = "/v1/models/intents/encoder/vocab.txt"
    rest = service.http.get(url, headers={"Range": "bytes=1000-"})
    assert (rest.status_code, rest.content) == (206, service.http.get(url).content[1000:])


def test_the_network_that_is_sent_encodes_texts(service: Service) -> None:
    session = onnxruntime.InferenceSession(service.http.get("/v1/models/intents/encoder/model.onnx").content)
    ids = minilm.tokenizer().encode("When do you open?").ids
    (vector,) = session.run(None, {"ids": np.array([ids], np.int64)})[0]
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_a_model_that_reads_no_texts_has_no_encoder(service: Service) -> None:
    answer = service.http.get("/v1/models/digits/encoder")
    assert (answer.status_code, answer.json()["error"]) == (400, "digits has no text encoder: its input is a vector")
    answer = service.http.get("/v1/models/hashed/encoder")
    assert answer.status_code == 400 and "read by hashing" in answer.json()["error"]


def test_an_unknown_file_is_refused(service: Service) -> None:
    answer = service.http.get("/v1/models/intents/encoder/secrets")
    assert answer.status_code == 404 and "it has model.onnx and vocab.txt" in answer.json()["error"]
