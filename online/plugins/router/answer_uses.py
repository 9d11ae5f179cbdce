"""The uses of an answer beside the caller's: its text is kept, and it is judged, where the options say so."""

from online.plugins.openai.chat_requests import ReceivedChat
from online.plugins.openai.completions import CompletedChat
from online.plugins.router.accounting import RouteAccounts
from online.plugins.router.clients import RouteClients
from online.plugins.router.judge import AnswerJudge
from online.plugins.router.kept_answers import KeptTexts
from online.serving.model_runtime import ModelRuntime


class AnswerUses:
    """The uses of one model's answers."""

    def __init__(self, model: ModelRuntime, accounting: RouteAccounts, routes: RouteClients) -> None:
        self.texts, self.keeps_all = KeptTexts(model), bool(model.spec.options.get("keep_answers"))
        self.judge = AnswerJudge(model, accounting, lambda: routes.by_name)

    async def use(self, completed: CompletedChat, chat: ReceivedChat, question_id: str = "") -> CompletedChat:
        """Return an answer that is used as well. question_id: see `AnswerTextRow`; the text of such an answer is kept."""
        if chat.task is not None:
            return completed
        judged = await self.judge.watch(completed, chat.question)
        return await self.texts.keep(judged, question_id) if question_id or self.keeps_all else judged
