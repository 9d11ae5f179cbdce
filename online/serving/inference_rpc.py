"""gRPC: the Open Inference Protocol's GRPCInferenceService. Raw bytes in, raw bytes out; typed values in, typed values out.

What it asks and tells is inference.py's, as over HTTP. Beside what the protocol has, the ids that feedback refers to are in
the answer's parameters, and in the trailing metadata.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online import __version__
from online.errors import BadInput, OnlineError
from online.schemas import PredictRequest
from online.serving import inference
from online.serving.calls import Call, Method, Service
from online.serving.inference import Wanted
from online.serving.parts import Parts
from online.serving.protos import inference_pb2 as oip
from online.serving.tensorflow import instances_of, known_versions
from online.serving.tensors import of_values

TYPED = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
# asked of a stream by those who wait for the last answer to a request: here each is
FINAL_WANTED, FINAL = "triton_enable_empty_final_response", "triton_final_response"


class Inference:
    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def service(self) -> Service:
        methods: dict[str, Method] = {
            "ServerLive": self.live,
            "ServerReady": self.ready,
            "ModelReady": self.model_ready,
            "ServerMetadata": self.server,
            "ModelMetadata": self.metadata,
            "ModelInfer": self.infer,
            "ModelStreamInfer": self.infer_streamed,
            "ModelConfig": self.config,
            "ModelStatistics": self.statistics,
            "RepositoryIndex": self.index,
            "RepositoryModelLoad": self.load,
            "RepositoryModelUnload": self.unload,
        }
        return Service(oip.DESCRIPTOR.services_by_name["GRPCInferenceService"], methods)

    async def live(self, request: oip.ServerLiveRequest, call: Call) -> oip.ServerLiveResponse:
        return oip.ServerLiveResponse(live=True)

    async def ready(self, request: oip.ServerReadyRequest, call: Call) -> oip.ServerReadyResponse:
        return oip.ServerReadyResponse(ready=inference.is_ready(self.parts))

    async def model_ready(self, request: oip.ModelReadyRequest, call: Call) -> oip.ModelReadyResponse:
        model, _ = inference.find(self.parts, request.name, request.version)
        return oip.ModelReadyResponse(ready=model.ready)

    async def server(self, request: oip.ServerMetadataRequest, call: Call) -> oip.ServerMetadataResponse:
        return oip.ServerMetadataResponse(name="online", version=__version__, extensions=inference.EXTENSIONS)

    async def metadata(self, request: oip.ModelMetadataRequest, call: Call) -> oip.ModelMetadataResponse:
        model, _ = inference.find(self.parts, request.name, request.version)
        return oip.ModelMetadataResponse(**inference.described(model.spec, known_versions(model.live)))

    async def infer(self, request: oip.ModelInferRequest, call: Call) -> oip.ModelInferResponse:
        settings = self.parts.settings
        model, which = inference.find(self.parts, request.model_name, request.model_version, call.route)
        wanted = [wanted_of(each) for each in request.outputs]
        inference.check_wanted(model.spec, wanted)
        instances = instances_of(model.spec, inputs_of(request, settings.max_tensor_elements), settings.max_instances)
        asked = PredictRequest(instances=inference.some(instances))
        told = await model.predictor.predict(asked, which=which)
        call.tell(told)
        answer = oip.ModelInferResponse(
            model_name=request.model_name, model_version=str(told.served.version), id=request.id
        )
        answer.parameters["prediction_ids"].string_param = ",".join(told.ids)
        for name, array in inference.outputs_wanted(model.spec, wanted, told.answers):
            add(answer, name, array, raw=bool(request.raw_input_contents))
        return answer

    async def infer_streamed(self, request: oip.ModelInferRequest, call: Call) -> oip.ModelStreamInferResponse:
        """One of a stream: what is wrong with it is told in its answer, so that the stream goes on."""
        try:
            answer = await self.infer(request, call)
        except OnlineError as error:
            self.parts.metrics.refused.labels(str(error.status)).inc()
            answer = oip.ModelInferResponse(model_name=request.model_name, id=request.id)
            return oip.ModelStreamInferResponse(error_message=str(error), infer_response=answer)
        if chosen(request.parameters.get(FINAL_WANTED)):
            answer.parameters[FINAL].bool_param = True
        return oip.ModelStreamInferResponse(infer_response=answer)

    async def config(self, request: oip.ModelConfigRequest, call: Call) -> oip.ModelConfigResponse:
        model, _ = inference.find(self.parts, request.name, request.version)
        told = inference.config_of(model.spec, self.parts.settings.max_batch)
        return oip.ModelConfigResponse(config=oip.ModelConfig(**told))

    async def statistics(self, request: oip.ModelStatisticsRequest, call: Call) -> oip.ModelStatisticsResponse:
        names = [request.name] if request.name else list(self.parts.models)
        found = [inference.find(self.parts, name, request.version)[0] for name in names]
        told = [inference.stats_of(self.parts, model) for model in found]
        kept = [{name: each[name] for name in each if name != "batch_stats"} for each in told]
        return oip.ModelStatisticsResponse(model_stats=[oip.ModelStatistics(**each) for each in kept])

    async def index(self, request: oip.RepositoryIndexRequest, call: Call) -> oip.RepositoryIndexResponse:
        listed = [oip.RepositoryIndexResponse.ModelIndex(**each) for each in inference.index_of(self.parts)]
        return oip.RepositoryIndexResponse(models=listed)

    async def load(self, request: oip.RepositoryModelLoadRequest, call: Call) -> oip.RepositoryModelLoadResponse:
        given = {name: chosen(each) for name, each in request.parameters.items()}
        if "label" in given:
            call.check_admin(self.parts.settings)
        await inference.load(self.parts, request.model_name, given)
        return oip.RepositoryModelLoadResponse()

    async def unload(self, request: oip.RepositoryModelUnloadRequest, call: Call) -> oip.RepositoryModelUnloadResponse:
        raise inference.always_served(self.parts, request.model_name)


def chosen(parameter: oip.InferParameter | oip.ModelRepositoryParameter | None) -> Any:
    kind = parameter.WhichOneof("parameter_choice") if parameter is not None else None
    return None if kind is None else getattr(parameter, kind)


def inputs_of(request: oip.ModelInferRequest, most: int) -> Mapping[str, NDArray[Any]]:
    """most: elements of all of them together. Raises BadInput or TooLarge."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise BadInput(f"{len(raw)} raw_input_contents for {len(request.inputs)} inputs")
    arrays = dict[str, NDArray[Any]]()
    for place, tensor in enumerate(request.inputs):
        if tensor.name in arrays:
            raise BadInput(f"the input {tensor.name[:80]!r} is there twice")
        inference.known_datatype(tensor.name, tensor.datatype)
        if raw:
            array = inference.of_raw(tensor.datatype, tensor.shape, raw[place], most)
        elif tensor.datatype not in TYPED:
            raise BadInput(f"values of {tensor.datatype} come as raw_input_contents alone")
        else:
            values = getattr(tensor.contents, TYPED[tensor.datatype])
            array = of_values(values, inference.DTYPES[tensor.datatype], tensor.shape, most)
        arrays[tensor.name] = array
        most -= array.size
    if not arrays:
        raise BadInput("there are no inputs")
    return arrays


def wanted_of(output: oip.ModelInferRequest.InferRequestedOutputTensor) -> Wanted:
    classes = chosen(output.parameters["classification"]) if "classification" in output.parameters else 0
    return inference.wanted_of({"name": output.name, "parameters": {"classification": classes}})


def add(answer: oip.ModelInferResponse, name: str, array: NDArray[Any], raw: bool) -> None:
    datatype = inference.datatype_of(array)
    output = answer.outputs.add(name=name, datatype=datatype, shape=array.shape)
    if raw:
        answer.raw_output_contents.append(inference.raw_of(array))
    elif datatype == "BYTES":
        output.contents.bytes_contents.extend(str(value).encode() for value in array.ravel())
    else:
        output.contents.fp32_contents.extend(np.asarray(array, np.float32).ravel().tolist())
