"""The settings of routes and their keys, before anything is served."""

import pytest

from online.errors import SetupError
from online.plugins.router.clients import read_keys, read_routes
from online.schemas.json_values import JSONObject

ROUTE: JSONObject = {"name": "main", "url": "https://api.example.com/v1/", "model": "m", "key_env": "EXAMPLE_KEY"}


def test_a_route_is_read_with_its_defaults() -> None:
    (route,) = read_routes("router", (ROUTE,))
    assert (route.url, route.retries) == ("https://api.example.com/v1", 1)
    assert route.price(1_000_000, 1_000_000) == 0.0


def test_cached_tokens_have_a_price_of_their_own() -> None:
    priced: JSONObject = {**ROUTE, "price_in": 2.0, "price_out": 10.0, "price_cached": 0.5}
    (route,) = read_routes("router", (priced,))
    assert route.price(1_000_000, 100_000, 400_000) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 1.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"url": "ftp://x"}, "not the URL of an endpoint"),
        ({"url": "api.example.com"}, "not the URL of an endpoint"),
        ({"price_in": -1}, "price_in"),
        ({"modell": "x"}, "modell"),
        ({"name": "a b"}, "name"),
        ({"prior": 2}, "prior"),
    ],
)
def test_a_table_that_is_no_route_is_refused_with_the_place(change: JSONObject, words: str) -> None:
    with pytest.raises(SetupError, match=words):
        read_routes("router", ({**ROUTE, **change},))


def test_two_routes_of_one_name_are_refused() -> None:
    with pytest.raises(SetupError, match="two routes named 'main'"):
        read_routes("router", (ROUTE, ROUTE))


def test_a_key_that_is_not_there_is_named() -> None:
    routes = read_routes("router", (ROUTE,))
    with pytest.raises(SetupError, match="EXAMPLE_KEY, which has the key, is not set"):
        read_keys("router", routes, {})
    assert read_keys("router", routes, {"EXAMPLE_KEY": "secret"}) == {"main": "secret"}
