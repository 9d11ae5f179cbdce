"""The Open Inference Protocol v2 over gRPC: GRPCInferenceService. Raw bytes in, raw bytes out; typed values in, typed out.

The prediction ids that feedback refers to are in the parameters of the answer and in the trailing metadata.
"""

from collections.abc import Mapping

import numpy as np

from online import __version__
from online.api.audit import record
from online.api.auth.scopes import Access, check_scope
from online.errors import BadInput, OnlineError
from online.models.contract import AnyArray
from online.plugins.grpc.calls import Call, Method, Service
from online.plugins.grpc.protos import inference_pb2 as pb
from online.plugins.open_inference.infer_request import (
    DTYPES,
    RequestedOutput,
    check_datatype,
    check_inputs,
    check_not_empty,
    read_raw,
    read_requested_output,
)
from online.plugins.open_inference.infer_response import check_outputs, datatype_of, select_outputs, write_raw
from online.plugins.open_inference.models import (
    EXTENSIONS,
    describe_model,
    find_model,
    list_names,
    list_versions,
    load_model,
    model_config,
    model_statistics,
    refuse_unload,
)
from online.plugins.tensorflow.tensor_signatures import MAX_ECHO_CHARS, instances_from_tensors
from online.plugins.tensorflow.tensors import array_from_values
from online.schemas.predict import PredictRequest
from online.serving.runtime import Runtime

CONTENT_FIELDS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
# Triton's clients set this parameter to have the last response to a request marked; here every response is the last
WANTS_FINAL, IS_FINAL = "triton_enable_empty_final_response", "triton_final_response"

PUBLIC: Access = "anybody"


class InferenceService:
    """The methods of the service."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def service(self) -> Service:
        """Return the methods with their scopes."""
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
        public = dict.fromkeys(("ServerLive", "ServerReady", "ServerMetadata"), PUBLIC)
        return Service(pb.DESCRIPTOR.services_by_name["GRPCInferenceService"], methods, "predict", public)

    async def live(self, request: pb.ServerLiveRequest, call: Call) -> pb.ServerLiveResponse:
        """Answer that the server lives."""
        return pb.ServerLiveResponse(live=True)

    async def ready(self, request: pb.ServerReadyRequest, call: Call) -> pb.ServerReadyResponse:
        """Return whether every model can answer."""
        return pb.ServerReadyResponse(ready=await self.runtime.is_ready())

    async def model_ready(self, request: pb.ModelReadyRequest, call: Call) -> pb.ModelReadyResponse:
        """Return whether a model can answer."""
        model, _ = find_model(self.runtime, request.name, request.version)
        return pb.ModelReadyResponse(ready=(await model.readiness.check()).is_ready)

    async def server(self, request: pb.ServerMetadataRequest, call: Call) -> pb.ServerMetadataResponse:
        """Return the server's name, version and extensions."""
        return pb.ServerMetadataResponse(name="online", version=__version__, extensions=EXTENSIONS)

    async def metadata(self, request: pb.ModelMetadataRequest, call: Call) -> pb.ModelMetadataResponse:
        """Return the inputs and outputs of a model, and its versions."""
        model, _ = find_model(self.runtime, request.name, request.version)
        return pb.ModelMetadataResponse(**describe_model(model.spec, model.live.known_versions()))

    async def infer(self, request: pb.ModelInferRequest, call: Call) -> pb.ModelInferResponse:
        """Predict from tensors."""
        settings = self.runtime.settings
        model, selector = find_model(self.runtime, request.model_name, request.model_version, call.route)
        requested = [parse_requested_output(each) for each in request.outputs]
        check_outputs(model.spec, requested)
        check_inputs(model.spec, (each.name for each in request.inputs))
        inputs = read_inputs(request, settings.max_tensor_elements)
        instances = check_not_empty(instances_from_tensors(model.spec, inputs, settings.max_instances))
        predicted = await model.predictor.predict(
            PredictRequest(instances=instances, user=call.caller.user), call.caller, selector=selector
        )
        call.set_prediction(predicted)
        response = pb.ModelInferResponse(
            model_name=request.model_name, model_version=str(predicted.served.version), id=request.id
        )
        response.parameters["prediction_ids"].string_param = ",".join(predicted.ids)
        for name, array in select_outputs(model.spec, requested, predicted.answers):
            add_output(response, name, array, raw=bool(request.raw_input_contents))
        return response

    async def infer_streamed(self, request: pb.ModelInferRequest, call: Call) -> pb.ModelStreamInferResponse:
        """Return one request of a stream. Its error is part of its response, so that the stream continues."""
        try:
            response = await self.infer(request, call)
        except OnlineError as error:
            self.runtime.metrics.refused.labels(str(error.status)).inc()
            response = pb.ModelInferResponse(model_name=request.model_name, id=request.id)
            return pb.ModelStreamInferResponse(error_message=str(error), infer_response=response)
        if parameter_value(request.parameters.get(WANTS_FINAL)):
            response.parameters[IS_FINAL].bool_param = True
        return pb.ModelStreamInferResponse(infer_response=response)

    async def config(self, request: pb.ModelConfigRequest, call: Call) -> pb.ModelConfigResponse:
        """Return the configuration of a model."""
        model, _ = find_model(self.runtime, request.name, request.version)
        config = model_config(model.spec, self.runtime.settings.max_batch)
        return pb.ModelConfigResponse(config=pb.ModelConfig(**config))

    async def statistics(self, request: pb.ModelStatisticsRequest, call: Call) -> pb.ModelStatisticsResponse:
        """Return statistics since this server started."""
        names = [request.name] if request.name else list_names(self.runtime, call.caller)
        models = [find_model(self.runtime, name, request.version)[0] for name in names]
        statistics = [model_statistics(self.runtime, model) for model in models]
        fields = [{name: each[name] for name in each if name != "batch_stats"} for each in statistics]
        return pb.ModelStatisticsResponse(model_stats=[pb.ModelStatistics(**each) for each in fields])

    async def index(self, request: pb.RepositoryIndexRequest, call: Call) -> pb.RepositoryIndexResponse:
        """List the versions of the models that the caller may use."""
        versions = [pb.RepositoryIndexResponse.ModelIndex(**each) for each in list_versions(self.runtime, call.caller)]
        return pb.RepositoryIndexResponse(models=versions)

    async def load(self, request: pb.RepositoryModelLoadRequest, call: Call) -> pb.RepositoryModelLoadResponse:
        parameters = {name: parameter_value(each) for name, each in request.parameters.items()}
        if "label" in parameters:
            check_scope(call.caller, "operate", request.model_name)
        await load_model(self.runtime, request.model_name, parameters)
        if "label" in parameters:
            label = str(parameters["label"])
            await record(self.runtime, call.caller, "label_version", request.model_name, label=label)
        return pb.RepositoryModelLoadResponse()

    async def unload(self, request: pb.RepositoryModelUnloadRequest, call: Call) -> pb.RepositoryModelUnloadResponse:
        """Refuse to unload: the service decides what it keeps."""
        raise refuse_unload(self.runtime, request.model_name)


def parameter_value(parameter: pb.InferParameter | pb.ModelRepositoryParameter | None) -> object:
    """Return the value of a parameter of any type; None without one."""
    field = parameter.WhichOneof("parameter_choice") if parameter is not None else None
    return None if field is None else getattr(parameter, field)


def read_inputs(request: pb.ModelInferRequest, most: int) -> Mapping[str, AnyArray]:
    """Return the input tensors by name. Raises BadInput or TooLarge.

    most: the largest number of elements of all tensors together.
    """
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise BadInput(f"there are {len(raw)} raw_input_contents for {len(request.inputs)} inputs")
    arrays = dict[str, AnyArray]()
    for place, tensor in enumerate(request.inputs):
        if tensor.name in arrays:
            raise BadInput(f"the input {tensor.name[:MAX_ECHO_CHARS]!r} is given twice")
        check_datatype(tensor.name, tensor.datatype)
        array = read_raw(tensor.datatype, tensor.shape, raw[place], most) if raw else read_contents(tensor, most)
        arrays[tensor.name] = array
        most -= array.size
    if not arrays:
        raise BadInput("there are no inputs")
    return arrays


def read_contents(tensor: pb.ModelInferRequest.InferInputTensor, most: int) -> AnyArray:
    """Return the array of a tensor with typed values. Raises BadInput or TooLarge."""
    if tensor.datatype not in CONTENT_FIELDS:
        raise BadInput(f"values of {tensor.datatype} are accepted as raw_input_contents only")
    values = getattr(tensor.contents, CONTENT_FIELDS[tensor.datatype])
    return array_from_values(values, DTYPES[tensor.datatype], tensor.shape, most)


def parse_requested_output(output: pb.ModelInferRequest.InferRequestedOutputTensor) -> RequestedOutput:
    """Return an output that the request asks for. Raises BadInput."""
    classes = parameter_value(output.parameters["classification"]) if "classification" in output.parameters else 0
    return read_requested_output({"name": output.name, "parameters": {"classification": classes}})


def add_output(response: pb.ModelInferResponse, name: str, array: AnyArray, raw: bool) -> None:
    """Add an array to the response, typed or as raw bytes."""
    datatype = datatype_of(array)
    output = response.outputs.add(name=name, datatype=datatype, shape=array.shape)
    if raw:
        response.raw_output_contents.append(write_raw(array))
    elif datatype == "BYTES":
        output.contents.bytes_contents.extend(str(value).encode() for value in array.ravel())
    else:
        output.contents.fp32_contents.extend(np.asarray(array, np.float32).ravel().tolist())
