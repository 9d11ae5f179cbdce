"""Fixtures of the tests of several processes: one thread each, as in the processes themselves."""

from tests.models.conftest import one_thread

__all__ = ["one_thread"]
