"""One browser for all tests of this folder, and visits that are checked when a test ends."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e.browsing import Visits, launch_browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Closed before the tests of other folders run, because it keeps an event loop running in this thread."""
    with launch_browser() as browser:
        yield browser


@pytest.fixture
def visits(browser: Browser) -> Iterator[Visits]:
    """Fail if a page sent a request to another origin or had an uncaught error."""
    visits = Visits(browser)
    yield visits
    visits.close()
