"""The moderation of one model: its inbox."""

from collections.abc import Mapping

from online.plugins.moderation.inbox.deciding import Inbox
from online.plugins.moderation.inbox.groups import index_questions
from online.serving.model_runtime import ModelRuntime
from online.serving.parts import ModelPart


class ModelModeration(ModelPart):
    """The moderation of one model."""

    def __init__(self, model: ModelRuntime) -> None:
        self.inbox = Inbox(model.feedback)

    async def find_open_questions(self) -> Mapping[str, str]:
        """Return the groups of the inbox that a link can lead to, by their questions."""
        return index_questions(await self.inbox.reader.load_groups())


def find_inbox(model: ModelRuntime) -> Inbox:
    """Return the inbox of a model."""
    return model.parts.find(ModelModeration).inbox
