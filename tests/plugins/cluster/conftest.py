"""A store of a cluster."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from online.store import Store
from online.store.claims import Proposal, claim
from online.store.events import load_end
from tests.plugins.cluster.reports import ONE, append


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    """A store whose log has five events, of which the live version has learned three."""
    with closing(Store(postgres_url)) as opened:
        opened.submit(lambda connection: append(connection, 3)).result()
        digest = opened.read(lambda connection: load_end(connection, "m"))[1]
        proposed = replace(ONE, learned_until=3, log_digest=digest)
        claim(opened, Proposal("m", proposed))
        opened.submit(lambda connection: append(connection, 2)).result()
        yield opened
