"""Workers of learners: processes of this machine, or of others, that sum ranges of a log or learn parts of towers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from online.learning.workers import WorkerHost, WorkerSupport
from online.plugins.workers.settings import WorkerSettings
from online.settings import Settings
from online.state.workspace import Workspace


class BoardWorkers(WorkerSupport):
    """Workers that join the board of a learner process."""

    def check(self, settings: Settings) -> None:
        """Raise BadExample for an example that this kind cannot learn."""
        if settings.part(WorkerSettings).learn_address is not None:
            from online.plugins.workers.hosting import check_key

            check_key(settings)

    @contextmanager
    def host(self, settings: Settings) -> Iterator[WorkerHost]:
        from online.plugins.workers.hosting import open_board
        from online.plugins.workers.learner_workers import BoardHost

        with open_board(settings) as board:
            yield WorkerHost() if board is None else BoardHost(board)

    def find_place(self, settings: Settings, environment: Mapping[str, str]) -> tuple[Settings, str | None]:
        """Return the settings of a learner that torchrun started as rank 0, or the address that another rank joins."""
        if "RANK" not in environment:
            return settings, None
        from online.plugins.workers.hosting import find_rank

        rank = find_rank(settings, environment)
        if rank is None:
            return settings, None
        if rank.number:
            return settings, rank.address
        return settings.model_copy(update={"learn_address": rank.address}), None

    def join(self, workspace: Workspace, address: str) -> int:
        from online.plugins.workers.joining import join_board

        return join_board(workspace, address)
