"""OpenAI's chat completions, which chat pages and SDKs send."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from fastapi import Request

    from online.api.routes import Router


class OpenaiPlugin(Plugin):
    """The hooks of OpenAI's chat completions."""

    name = "openai"

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.openai.chat_completions import router

        return (router,)

    def unmatched_error(self, request: "Request") -> "Exception | None":
        from online.plugins.openai.paths import is_meant_for_openai, unserved

        return unserved(request) if is_meant_for_openai(request) else None

    def error_body(self, request: "Request", status: int, text: str, error: Exception) -> "Mapping[str, object] | None":
        from online.plugins.openai.paths import describe_error

        return describe_error(request, status, text, error)


PLUGIN = OpenaiPlugin()
