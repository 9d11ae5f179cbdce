"""The text encoder of a model, for browsers and phones that encode texts themselves.

GET .../encoder               its manifest: epoch, scale, and two files with their sizes
GET .../encoder/model.onnx    the network with its weights in int8, 23 MB (`online.plugins.export.compact`)
GET .../encoder/vocab.txt     the tokens that it reads
"""

import asyncio
import hashlib
from functools import lru_cache
from pathlib import Path

from fastapi import Request, Response
from fastapi.responses import FileResponse

from online.api.dependencies import ModelDep
from online.api.responses import json_response
from online.api.routes import Router
from online.errors import BadInput, NotFound
from online.models import encoder_options
from online.models.encoders import minilm
from online.models.encoders.text import TEXT_SCALE
from online.models.kinds import HASHED
from online.plugins.export.compact import compact_epoch
from online.plugins.export.model_exports import exports_of
from online.plugins.export.routes.sending import CACHE_CONTROL, WAITING, describe_file, send_file
from online.schemas.models import EncoderFile, EncoderManifest
from online.serving.model_runtime import ModelRuntime

router = Router()

NETWORK, VOCABULARY = "model.onnx", "vocab.txt"
FILE = {**describe_file("The file. Its ETag is its sha256."), **WAITING}


@router.get("/v1/models/{model}/encoder", "predict", response_model=EncoderManifest, responses=WAITING)
async def get_encoder(model: ModelDep) -> Response:
    """The text encoder of the model, for devices that encode texts themselves: its manifest.

    The network is the service's with its weights rounded to int8. The first request takes seconds: the file is written then.
    """
    files = await find_files(model)
    manifest = EncoderManifest(
        epoch=compact_epoch(model.live.encoder_config.encoder_name),
        width=minilm.WIDTH,
        scale=TEXT_SCALE,
        max_tokens=minilm.MAX_TOKENS,
        files=[await asyncio.to_thread(describe_encoder_file, name, path) for name, path in files.items()],
    )
    return json_response(manifest.model_dump(), headers={"Cache-Control": CACHE_CONTROL})


@router.get("/v1/models/{model}/encoder/{name}", "predict", response_class=FileResponse, responses=FILE)
async def get_encoder_file(request: Request, model: ModelDep, name: str) -> Response:
    """One file of the text encoder: model.onnx or vocab.txt."""
    files = await find_files(model)
    if name not in files:
        raise NotFound(f"the text encoder has no file {name[:80]!r}; it has {' and '.join(files)}")
    file = await asyncio.to_thread(describe_encoder_file, name, files[name])
    return send_file(request, files[name], file.sha256, {})


def describe_encoder_file(name: str, path: Path) -> EncoderFile:
    """Describe a file of the encoder. Raises NotFound for a file that was deleted since it was found."""
    try:
        found = path.stat()
        return EncoderFile(name=name, bytes=found.st_size, sha256=hash_file(path, found.st_mtime_ns))
    except FileNotFoundError as error:
        raise NotFound(f"{name} of the text encoder was deleted just now: send the request again") from error


async def find_files(model: ModelRuntime) -> dict[str, Path]:
    """Return the files of the model's encoder by their names. Raises Overloaded, and BadInput for a model that reads no texts."""
    reads = encoder_options(model.spec.kind, model.spec.options)
    if reads["input"] != "text":
        raise BadInput(f"{model.spec.name} has no text encoder: its input is a {reads['input']}")
    if reads["text_features"] == HASHED:
        raise BadInput(f"{model.spec.name} has no text encoder: its texts are read by hashing, which needs no file")
    network = await exports_of(model).encoder_files.load(model.live.encoder_config.encoder_name)
    return {NETWORK: network, VOCABULARY: minilm.package_folder() / VOCABULARY}


@lru_cache(maxsize=16)
def hash_file(path: Path, changed_at_ns: int) -> str:
    """Return the sha256 of a file, computed once for each change of it."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
