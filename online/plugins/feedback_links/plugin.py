"""Signed feedback URLs: the holder of one may rate one prediction, on a page or with a program."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from online.plugin import Plugin

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

    from online.api.routes import Router
    from online.plugins.feedback_links.settings import FeedbackLinkSettings
    from online.plugins.feedback_links.signed_urls import SignedUrls

TEMPLATES = Path(__file__).parent / "templates"


class FeedbackLinksPlugin(Plugin):
    """The hooks of feedback URLs."""

    name = "feedback_links"

    def settings(self) -> "type[FeedbackLinkSettings]":
        """Return the class of this plugin's settings."""
        from online.plugins.feedback_links.settings import FeedbackLinkSettings

        return FeedbackLinkSettings

    def routers(self) -> "Iterable[Router]":
        """Return this plugin's routes."""
        from online.plugins.feedback_links.routes import router

        return (router,)

    def api_part(self, app: "FastAPI") -> "SignedUrls":
        """Return what creates and checks the URLs, and add the page to those of the server."""
        from online.plugins.feedback_links.messages import ERRORS, MESSAGES
        from online.plugins.feedback_links.signed_urls import SignedUrls

        runtime, urls = app.state.runtime, SignedUrls(app.state.runtime.workspace.keys, app.state.runtime.settings)
        app.state.server_pages.add(TEMPLATES, MESSAGES, ERRORS)
        if runtime.is_primary:
            urls.warn_if_off()
        return urls

    def feedback_urls(self, request: "Request", model: str, prediction_ids: "Sequence[str]") -> "Sequence[str]":
        """Return a signed URL for each prediction."""
        from online.plugins.feedback_links.signed_urls import SignedUrls

        urls: SignedUrls = request.app.state.parts.find(SignedUrls)
        return urls.create(request, model, prediction_ids)


PLUGIN = FeedbackLinksPlugin()
