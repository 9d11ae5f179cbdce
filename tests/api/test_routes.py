"""The table of routes: what it derives for each part of the service."""

import pytest
from fastapi import Request, Response

from online.api.core_routers import ROUTES
from online.api.routes import Router, RouteTable, compile_path


async def answer(request: Request) -> Response:
    return Response()


def test_an_operation_cannot_be_declared_twice() -> None:
    first, second = Router(), Router()
    first.get("/v1/things", "predict")(answer)
    second.get("/v1/things", "operate")(answer)
    with pytest.raises(ValueError, match="GET /v1/things is declared twice"):
        RouteTable([first, second])


@pytest.mark.parametrize(
    ("template", "path", "matches"),
    [
        ("/v1/models/{model}:predict", "/v1/models/a:predict", True),
        ("/v1/models/{model}:predict", "/v1/models/a:b:predict", False),
        ("/v1/models/{model}:predict", "/v1/models/a/b:predict", False),
        ("/v1/models/{model}/conversations/{id}", "/v1/models/a/conversations/b:share", False),
        ("/v1/models/{model}/classes/{name:path}", "/v1/models/a/classes/b/c", True),
        ("/v1/a.b", "/v1/aXb", False),
    ],
)
def test_parameters_of_a_path(template: str, path: str, matches: bool) -> None:
    assert (compile_path(template).fullmatch(path) is not None) is matches


def test_every_route_that_reads_the_words_of_a_user_or_secrets_stays_uncompressed() -> None:
    assert {route.path for route in ROUTES if not route.compressed} >= {"/v1/keys", "/v1/session"}
    assert not {route.path for route in ROUTES if not route.compressed} & set(ROUTES.list_compressed())


def test_only_routes_of_a_model_are_found_without_a_search() -> None:
    fast = {(route.method, route.path) for route in ROUTES if route.fast is not None}
    assert fast == {("POST", "/v1/models/{model}:predict"), ("POST", "/v1/models/{model}:feedback")}
    assert [route.path for route in ROUTES if route.takes_rows] == ["/v1/models/{model}:predict"]
