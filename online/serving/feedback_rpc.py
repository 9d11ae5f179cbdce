"""gRPC: our own service, online.v1.Feedback: what was thought of predictions, what became of it, when it is learned."""

import asyncio
from typing import Any

from google.protobuf.struct_pb2 import Value
from pydantic import ValidationError

from online.errors import BadInput, TooLarge
from online.schemas import FeedbackItem, FeedbackRequest
from online.serving.calls import Call, Method, Service
from online.serving.parts import ModelParts, Parts
from online.serving.protos import online_pb2 as ours
from online.settings import describe

LONGEST_WAIT_S = 60.0
WORDS = ("id", "user", "reason", "comment")


class Feedback:
    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def service(self) -> Service:
        methods: dict[str, Method] = {
            "Give": self.give,
            "Retract": self.retract,
            "GetFate": self.fate,
            "WaitLearned": self.wait_learned,
        }
        return Service(ours.DESCRIPTOR.services_by_name["Feedback"], methods)

    def model(self, name: str) -> ModelParts:
        return self.parts.model(name[:80])

    async def give(self, request: ours.GiveRequest, call: Call) -> ours.GiveResponse:
        model = self.model(request.model)
        try:
            given = FeedbackRequest(
                feedback=[item_of(item, self.parts.settings.max_json_depth) for item in request.feedback]
            )
        except ValidationError as error:
            raise BadInput(describe(error)) from None
        receipts = await asyncio.shield(model.predictor.feedback(given.feedback))
        return ours.GiveResponse(receipts=[ours.Receipt(**receipt.model_dump()) for receipt in receipts])

    async def retract(self, request: ours.FeedbackRef, call: Call) -> ours.Receipt:
        receipt = await asyncio.shield(self.model(request.model).predictor.retract(request.id))
        return ours.Receipt(**receipt.model_dump())

    async def fate(self, request: ours.FeedbackRef, call: Call) -> ours.Fate:
        model = self.model(request.model)
        await asyncio.shield(model.flush_fates())
        told = (await model.predictor.fate(request.id)).model_dump(exclude_none=True)
        return ours.Fate(**{**told, **({"version": int(told["version"])} if "version" in told else {})})

    async def wait_learned(self, request: ours.WaitLearnedRequest, call: Call) -> ours.Learned:
        live = self.model(request.model).live
        left_s = LONGEST_WAIT_S if call.left_s is None else min(call.left_s, LONGEST_WAIT_S)
        await live.wait_until(request.offset, left_s)
        return ours.Learned(version=live.current.version, learned_until=live.current.learned_until)


def item_of(item: ours.Item, depth: int) -> FeedbackItem:
    """Raises ValidationError or TooLarge."""
    given: dict[str, Any] = {name: getattr(item, name) for name in WORDS if getattr(item, name)}
    about, said = item.WhichOneof("about"), item.WhichOneof("said")
    if about is not None:
        given[about] = item.prediction_id if about == "prediction_id" else value_of(item.input, depth)
    if said is not None:
        given[said] = getattr(item, said)
    return FeedbackItem(**given)


def value_of(value: Value, depth: int) -> Any:
    """As JSON has it, `depth` levels at most. Raises TooLarge."""
    kind = value.WhichOneof("kind")
    if kind in ("list_value", "struct_value") and not depth:
        raise TooLarge("the input nests deeper than it may (max_json_depth)")
    match kind:
        case "list_value":
            return [value_of(each, depth - 1) for each in value.list_value.values]
        case "struct_value":
            return {name: value_of(each, depth - 1) for name, each in value.struct_value.fields.items()}
        case "number_value" | "string_value" | "bool_value":
            return getattr(value, kind)
    return None
