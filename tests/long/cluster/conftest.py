"""The Postgres of a test of a cluster: one of its own, because several replicas take most connections that a shared one has."""

from collections.abc import Iterator

import pytest

from tests.cluster.servers import MissingServer, OwnPostgres
from tests.support import skip_or_fail


@pytest.fixture
def own_postgres() -> Iterator[OwnPostgres]:
    """A cluster of Postgres that a test may kill."""
    try:
        server = OwnPostgres()
    except MissingServer as error:
        skip_or_fail(str(error))
    yield server
    server.close()
