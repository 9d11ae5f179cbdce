"""The native gRPC service online.v1.Feedback: give feedback, ask what became of it, wait for it."""

import asyncio

from google.protobuf.struct_pb2 import Value
from pydantic import ValidationError

from online.api.audit import name_offset, record, record_corrections
from online.api.bodies import invalid_body
from online.errors import TooLarge
from online.plugins.grpc.calls import Call, Method, Service
from online.plugins.grpc.protos import online_pb2 as pb
from online.schemas.feedback import FeedbackItem, FeedbackRequest
from online.schemas.json_values import JSONObject
from online.serving.model_runtime import ModelRuntime
from online.serving.runtime import Runtime

MAX_WAIT_S = 60.0
TEXT_FIELDS = ("id", "user", "reason", "comment", "scope")


class FeedbackService:
    """Implements online.v1.Feedback."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def service(self) -> Service:
        """Return the methods with their scopes."""
        methods: dict[str, Method] = {
            "Give": self.give,
            "Retract": self.retract,
            "GetFate": self.get_fate,
            "WaitLearned": self.wait_learned,
        }
        return Service(pb.DESCRIPTOR.services_by_name["Feedback"], methods, "feedback", {"WaitLearned": "predict"})

    def _model(self, name: str) -> ModelRuntime:
        return self.runtime.model(name[:80])

    async def give(self, request: pb.GiveRequest, call: Call) -> pb.GiveResponse:
        """Give feedback, as POST :feedback does."""
        model = self._model(request.model)
        max_depth = self.runtime.settings.max_json_depth
        try:
            parsed = FeedbackRequest(feedback=[parse_item(item, max_depth) for item in request.feedback])
        except ValidationError as error:
            raise invalid_body(error, FeedbackRequest) from None
        receipts = await asyncio.shield(model.feedback.submit(parsed.feedback, call.caller))
        await record_corrections(self.runtime, call.caller, model.spec.name, parsed.feedback, receipts)
        return pb.GiveResponse(receipts=[pb.Receipt(**receipt.model_dump()) for receipt in receipts])

    async def retract(self, request: pb.FeedbackRef, call: Call) -> pb.Receipt:
        """Retract one feedback."""
        model = self._model(request.model)
        receipt = await asyncio.shield(model.feedback.retract(request.id, call.caller))
        await record(self.runtime, call.caller, "retract", model.spec.name, name_offset(receipt.offset))
        return pb.Receipt(**receipt.model_dump())

    async def get_fate(self, request: pb.FeedbackRef, call: Call) -> pb.Fate:
        """Return what became of one feedback."""
        model = self._model(request.model)
        await asyncio.shield(model.outcomes.flush())
        outcome = (await model.feedback.load_outcome(request.id, call.caller)).model_dump(exclude_none=True)
        version = {"version": int(outcome["version"])} if "version" in outcome else {}
        return pb.Fate(**{**outcome, **version})

    async def wait_learned(self, request: pb.WaitLearnedRequest, call: Call) -> pb.Learned:
        """Wait until a live version has learned an offset, at most until the caller's deadline."""
        live = self._model(request.model).live
        timeout_s = MAX_WAIT_S if call.timeout_s is None else min(call.timeout_s, MAX_WAIT_S)
        await live.wait_until(request.offset, timeout_s)
        return pb.Learned(version=live.current.version, learned_until=live.current.learned_until)


def parse_item(item: pb.Item, max_depth: int) -> FeedbackItem:
    """Parse an item of feedback. Raises ValidationError or TooLarge."""
    fields: JSONObject = {name: getattr(item, name) for name in TEXT_FIELDS if getattr(item, name)}
    subject, signal = item.WhichOneof("about"), item.WhichOneof("said")
    if subject is not None:
        fields[subject] = item.prediction_id if subject == "prediction_id" else parse_value(item.input, max_depth)
    if signal is not None:
        fields[signal] = getattr(item, signal)
    return FeedbackItem(**fields)


def parse_value(value: Value, max_depth: int) -> object:
    """Return a JSON value of at most `max_depth` levels. Raises TooLarge."""
    kind = value.WhichOneof("kind")
    if kind in ("list_value", "struct_value") and not max_depth:
        raise TooLarge("the input nests too deep (max_json_depth)")
    match kind:
        case "list_value":
            return [parse_value(each, max_depth - 1) for each in value.list_value.values]
        case "struct_value":
            return {name: parse_value(each, max_depth - 1) for name, each in value.struct_value.fields.items()}
        case "number_value" | "string_value" | "bool_value":
            return getattr(value, kind)
    return None
