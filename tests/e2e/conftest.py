"""A browser for every test of these pages, and visits that are checked when they end."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e.browsing import Visits, launched


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Gone before the tests of another folder: it keeps an event loop running in this thread, and they run their own."""
    with launched() as browser:
        yield browser


@pytest.fixture
def visits(browser: Browser) -> Iterator[Visits]:
    """Fails where a page asked another origin for anything, or an error was caught by nobody."""
    opened = Visits(browser)
    yield opened
    opened.close()
