"""Versions as files that answer elsewhere, in ONNX, safetensors and other formats.

A file of a model of tables lists the categories that others have sent, so it needs what a file of sums needs (`learner_files`).
A file is computed once and kept. Its ETag is its sha256, so that a client which has it already sends If-None-Match and gets 304.
"""

import asyncio
import re
from pathlib import Path
from typing import Annotated, Literal

from fastapi import Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import Field

from online.api.auth.scopes import CallerDep, check_scope
from online.api.dependencies import ModelDep
from online.api.responses import Responses, json_response
from online.api.routes import Router
from online.models import input_options
from online.plugins.export.files import KeptExport
from online.plugins.export.formats import FORMATS, find_format
from online.plugins.export.learner_files import LEARNER
from online.plugins.export.model_exports import exports_of
from online.plugins.export.routes.learner_files import check_may_read_sums, send_learner_file
from online.plugins.export.routes.sending import WAITING, describe_file, send_file
from online.schemas.access.callers import Caller
from online.schemas.fields import ErrorAnswer, Wire
from online.serving.model_runtime import ModelRuntime

router = Router()

FormatQuery = Annotated[str, Query(alias="format", max_length=40, description=f"One of {', '.join(FORMATS)}.")]
FileQuery = Annotated[
    str, Query(alias="format", max_length=40, description=f"One of {', '.join([*FORMATS, LEARNER])}.")
]
REFUSALS: Responses = {
    **WAITING,
    409: {"model": ErrorAnswer, "description": "This model cannot be written in this format; the message says why."},
}


class TensorDetails(Wire):
    """One input or output of an exported file."""

    name: str
    dtype: Literal["float32", "float64", "int64"]
    shape: list[int | str] = Field(description="Numbers, and names of dimensions that differ from call to call.")
    meaning: str


class ExportManifest(Wire):
    """The manifest of an exported file: its inputs, its outputs, and how near they are to the served answers."""

    manifest_format: int
    model: str
    version: int
    kind: str
    format: str
    task: Literal["classification", "regression", "ranking"]
    learned_until: int
    state_sha256: str = Field(description="Digest of what was learned.")
    weights_sha256: str
    feature_epoch: str
    input: Literal["text", "vector", "table"]
    inputs: list[TensorDetails]
    outputs: list[TensorDetails]
    classes: list[str] = Field(description="What the columns of `chances` mean, in order; empty for numbers.")
    numbers: list[str] = Field(description="The columns of the input `numbers`, in order.")
    categories: list[str] = Field(description='The columns of the input `categories`, each "name=value", in order.')
    shares_overflow: bool = Field(
        description='Whether other names share the categories "overflow-K=", where K is crc32(name) mod 16.'
    )
    preprocessing: str = Field(description="What is left to do before the graph, which does the rest.")
    tokenizer_sha256: str = Field(description="Of tokenizer.json; empty if no text is read.")
    temperature: float | None = Field(description="By which scores are divided in the graph.")
    abstain_below: float
    file: str
    sha256: str = Field(description="Of the file; its ETag.")
    bytes: int
    int8_products: int | None = Field(
        None,
        description="Products by matrices of int8, and look-ups in them; 0: no matrix is large enough, and the file is in float32 "
        "throughout. Only of onnx-int8.",
    )
    golden_count: int = Field(
        description="Inputs on which the file was compared with the served model, one by one and together."
    )
    largest_difference: float = Field(
        description="Of a probability; of numbers, as a share of the largest number that was served."
    )
    agreement_ratio: float = Field(description="The share of equal choices, or of numbers within one percent.")
    labelled_count: int = Field(description="Held-out examples on which both were scored; 0 if none are kept.")
    served_accuracy: float | None
    accuracy: float | None = Field(description="Of the exported file.")


@router.get(
    "/v1/models/{model}/versions/{version}/export",
    "predict",
    response_class=FileResponse,
    responses={**describe_file(), **REFUSALS},
)
async def export_version(
    request: Request, caller: CallerDep, model: ModelDep, version: str, format: FileQuery = "onnx"
) -> Response:
    """A version as a file that gives the served answers elsewhere, or with which a device goes on learning (`learner`).

    The first request for a version and a format takes up to seconds; later ones are answered from the disk. `version` is a number
    or a label. Only some versions have their sums on the disk: a file for a learner is of the newest of them until this one,
    or of a later one that has learned the same, which `X-Model-Version` names.
    """
    if format == LEARNER:
        return await send_learner_file(request, caller, model, version)
    kept = await find_export(caller, model, version, format)
    headers = {"X-Model-Version": number_of(kept)}
    return send_file(request, kept.path, kept.sha256, headers, filename=name_file(kept))


@router.get(
    "/v1/models/{model}/versions/{version}/export/manifest",
    "predict",
    response_model=ExportManifest,
    responses=REFUSALS,
)
async def show_export_manifest(
    caller: CallerDep, model: ModelDep, version: str, format: FormatQuery = "onnx"
) -> Response:
    """What the exported file reads and answers, its sha256, and how near its answers are to the served ones."""
    kept = await find_export(caller, model, version, format)
    return json_response(kept.manifest, headers={"X-Model-Version": number_of(kept)})


async def find_export(caller: Caller, model: ModelRuntime, version: str, format: str) -> KeptExport:
    """Return the export that a request names. Raises BadInput for an unknown format, Forbidden, and what `VersionExports.find` raises."""
    form = find_format(format)
    check_scope(caller, form.scope, model.spec.name)
    if input_options(model.spec.kind, model.spec.options)["input"] == "table":
        check_may_read_sums(caller, model)
    number = await asyncio.to_thread(model.snapshots.labels.resolve, version)
    return await exports_of(model).versions.find(number, form)


def number_of(kept: KeptExport) -> str:
    """Return the version of an export."""
    return str(kept.manifest["version"])


def name_file(kept: KeptExport) -> str:
    """chat-12.int8.onnx: a name for the folder of downloads."""
    plain = re.sub(r"[^0-9A-Za-z_-]", "-", str(kept.manifest["model"]))[:80]
    return f"{plain}-{number_of(kept)}{''.join(Path(kept.path).suffixes)}"
