"""Choice of a route for a request: by the model, among those that can answer it now."""

from collections.abc import Mapping, Sequence

from online.api.responses import answer_headers
from online.plugins.router.chat_requests import RoutedRequest
from online.plugins.router.chosen_routes import (
    ChosenRoute,
    NoRouteAnswers,
    describe_choice,
    find_cheapest,
    is_available,
)
from online.plugins.router.held_routes import HeldRoutes
from online.plugins.router.live_router import find_router
from online.plugins.router.upstream import RouteClient
from online.schemas.access.callers import Caller
from online.schemas.predict import PredictRequest
from online.serving.model_runtime import ModelRuntime
from online.serving.predictor import PredictionResult


class RouteChoice:
    """The choices of one model. held: the routes of its conversations."""

    def __init__(self, model: ModelRuntime) -> None:
        self.model, self.held = model, HeldRoutes(model)

    async def choose(
        self,
        asked: RoutedRequest,
        caller: Caller,
        clients: Mapping[str, RouteClient],
        failures: Mapping[str, str],
        without: Sequence[str] = (),
    ) -> ChosenRoute:
        """Return the route that answers next. failures: of this request so far, by route. without: routes that are not asked.

        Raises NoRouteAnswers.
        """
        chat, facts = asked.chat, asked.facts
        active = {each.name for each in find_router(self.model).present().routes}
        out = {*failures, *without, *(name for name in clients if active and name not in active)}
        excluded = [name for name, each in clients.items() if name in out or not is_available(each, facts)]
        left = [each for name, each in clients.items() if name not in excluded]
        if not left:
            others = " other" if without else ""
            reason = f"no{others} route has answered" if failures else f"no{others} route can take this request now"
            raise NoRouteAnswers(reason, failures)
        if chat.task is not None:  # of the page, such as a title: no user asks for it
            client = find_cheapest(left)
            id = f"{chat.id_prefix}task-{self.model.new_id()}"
            return ChosenRoute(client, id, False, self.model.live.current.version, describe_choice(client, 1.0))
        held = await self.held.find(asked.conversation) if facts.get("turns") else ""
        user = caller.acts_for(chat.user)
        instance = asked.build_instance(excluded, held, user)
        predicted = await self.model.predictor.predict(
            PredictRequest(instances=[instance], user=user), caller, chat.id_prefix
        )
        return self._read_choice(predicted, clients, left, chat.id_prefix)

    def _read_choice(
        self, predicted: PredictionResult, clients: Mapping[str, RouteClient], left: list[RouteClient], id_prefix: str
    ) -> ChosenRoute:
        answer = predicted.answers[0]
        client = clients.get(answer.choice or "")
        if client is None:  # of a version that knows other routes than this process
            client = find_cheapest(left)
        is_recorded = bool(predicted.ids) and answer.choice == client.route.name
        id = predicted.ids[0] if is_recorded else f"{id_prefix}unrecorded-{self.model.new_id()}"
        headers = answer_headers(predicted) | describe_choice(client, answer.propensity)
        return ChosenRoute(client, id, is_recorded, predicted.served.version, headers)
