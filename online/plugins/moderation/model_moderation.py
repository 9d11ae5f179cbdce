"""The moderation of one model: its inbox, and the review of its callers."""

from collections.abc import Iterable, Mapping

from online.plugins.moderation.callers.caller_review import CallerReview
from online.plugins.moderation.callers.holders import Holders
from online.plugins.moderation.callers.influence import Influence
from online.plugins.moderation.callers.standing import STATES, State
from online.plugins.moderation.inbox.deciding import Inbox
from online.plugins.moderation.inbox.groups import index_questions
from online.plugins.moderation.metrics import ModerationMetrics
from online.serving.event_feed import FeedEvent
from online.serving.model_runtime import ModelRuntime
from online.serving.parts import ModelPart, Work
from online.serving.runtime import Runtime


class ModelModeration(ModelPart):
    """The moderation of one model."""

    def __init__(self, model: ModelRuntime, runtime: Runtime) -> None:
        self.name, self.feed, self.metrics = model.spec.name, model.feed, runtime.metrics.parts.find(ModerationMetrics)
        self.inbox = Inbox(model.feedback)
        self.holders = Holders(model.feedback, self._announce)
        influence = Influence(runtime.settings, model.spec)
        self.review = CallerReview(self.holders, model.live, influence, self._show_states)

    def background(self, is_primary: bool) -> Iterable[Work]:
        """Return the review of callers, which the first worker runs."""
        return (self.review.run(),) if is_primary and self.review.influence.has_limits else ()

    async def find_open_questions(self) -> Mapping[str, str]:
        """Return the groups of the inbox that a link can lead to, by their questions."""
        return index_questions(await self.inbox.reader.load_groups())

    def _announce(self, holder: str, state: State, reason: str | None) -> None:
        self.metrics.caller_decisions.labels(self.name, state).inc()
        self.feed.send_everywhere(
            FeedEvent("caller", {"caller": holder, "state": state, "reason": reason}, owner=holder)
        )

    def _show_states(self, states: Mapping[str, int]) -> None:
        for state in STATES:
            self.metrics.callers.labels(self.name, state).set(states.get(state, 0))


def find_inbox(model: ModelRuntime) -> Inbox:
    """Return the inbox of a model."""
    return model.parts.find(ModelModeration).inbox
