"""The routes of the API that this plugin adds."""

from online.plugins.router import page_answers, recording, views

ROUTERS = (views.router, recording.router, page_answers.router)
