"""A store of a cluster."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest

from online.store import Store
from online.store.events import load_end
from online.store.publications import claim
from tests.plugins.cluster.reports import ONE, append


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    """A store whose log has five events, of which the live version has learned three."""
    with closing(Store(postgres_url)) as opened:
        opened.submit(lambda connection: append(connection, 3)).result()
        digest = opened.read(lambda connection: load_end(connection, "m"))[1]
        proposed = replace(ONE, learned_until=3, log_digest=digest)
        opened.submit(partial(claim, model="m", proposed=proposed)).result()
        opened.submit(lambda connection: append(connection, 2)).result()
        yield opened
