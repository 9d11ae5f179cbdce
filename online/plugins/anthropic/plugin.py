"""Anthropic's Messages, which its SDKs and Claude Code send."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from fastapi import Request

    from online.api.routes import Router


class AnthropicPlugin(Plugin):
    """The hooks of Anthropic's Messages."""

    name = "anthropic"
    requires = ("openai",)  # whose chat completions answer the messages

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.anthropic.messages import router

        return (router,)

    def unmatched_error(self, request: "Request") -> "Exception | None":
        """Return the error of a path of Anthropic's API that is not served."""
        from online.plugins.anthropic.paths import is_anthropics, unserved

        return unserved(request) if is_anthropics(request) else None

    def error_body(self, request: "Request", status: int, text: str, error: Exception) -> "Mapping[str, object] | None":
        """Return an error in Anthropic's shape, for its paths and its clients."""
        from online.plugins.anthropic.paths import describe_error, is_anthropics

        return describe_error(status, text) if is_anthropics(request) else None


PLUGIN = AnthropicPlugin()
