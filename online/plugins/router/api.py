"""The routes of the API that this plugin adds."""

from online.plugins.router import answers_view, management, page_answers, recording, views
from online.plugins.router.report import views as report_views

ROUTERS = (
    views.router,
    report_views.router,
    management.router,
    recording.router,
    page_answers.router,
    answers_view.router,
)
