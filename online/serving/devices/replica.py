"""A version on an accelerator, which answers in smaller pieces, and then on the CPU, where memory runs out.

    inputs --> the model on the device --OutOfMemoryError--> halves, ... one row --> the same version on the CPU
                                                  \\-- noted: log, metric, `online devices`

After a fallback the CPU answers for RETRY_S; a version that goes live later is loaded on the device again.
"""

import time
from collections.abc import Callable, Sequence

from online.models.contract import Answer, Model
from online.models.devices.fallback import (
    Fallback,
    PieceSize,
    SmallestBatchTooLarge,
    is_out_of_memory,
    listening,
    note_fallback,
    run_in_pieces,
)
from online.models.devices.probe import CPU
from online.models.devices.turns import high_priority

RETRY_S = 60.0  # for which the CPU answers before a device that was full is tried again


class ServingPlace:
    """The devices on which this process answers with one model."""

    def __init__(
        self,
        wanted: str = CPU,
        on_fallback: Callable[[Fallback], None] = lambda fallback: None,
        on_move: Callable[[str], None] = lambda device: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """wanted: devices, joined. on_fallback: informed of each lack of memory; on_move: of the device from then on."""
        self.wanted, self.on_fallback, self.on_move, self.clock = wanted, on_fallback, on_move, clock
        self._full_until = -RETRY_S

    @property
    def device(self) -> str:
        """The devices on which a version is to be loaded now."""
        return CPU if self.clock() < self._full_until else self.wanted

    def leave(self, what: str, error: BaseException) -> None:
        """Answer on the CPU for a while."""
        self._full_until = self.clock() + RETRY_S
        with listening(self.on_fallback):
            note_fallback(what, self.wanted, "on the CPU", error)
        self.on_move(CPU)

    def load(self, create: Callable[[str], Model], warm_up: Sequence[bytes]) -> "tuple[Model, Replica | None]":
        """Return a model that has answered the warm-up; with its replica if it lies on an accelerator.

        create: makes the model on a device, with all that it has learned. Raises what it raises.
        """
        device = self.device
        if device != CPU:
            try:
                return self._load_on(device, create, warm_up)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                self.leave("loading a version", error)
        model = create(CPU)
        model.predict(list(warm_up))
        return model, None

    def _load_on(
        self, device: str, create: Callable[[str], Model], warm_up: Sequence[bytes]
    ) -> "tuple[Model, Replica | None]":
        with high_priority(device):
            model = create(device)
        replica = Replica(model, device, self, lambda: create(CPU))
        replica.predict(list(warm_up))
        if replica.lies_on_device:
            self.on_move(device)
        return model, replica


class Replica:
    """A model on an accelerator, and what answers in its place."""

    def __init__(self, model: Model, device: str, place: ServingPlace, create_on_cpu: Callable[[], Model]) -> None:
        self.model, self.device, self.place, self._create_on_cpu = model, device, place, create_on_cpu
        self._size: PieceSize | None = None  # rows that are answered at once; None: all

    @property
    def lies_on_device(self) -> bool:
        """Whether the version is on an accelerator, and not moved to the CPU."""
        return self.device != CPU

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer each input. Which device computes, and how many rows at once, does not show."""
        if not self.lies_on_device:
            return self.model.predict(inputs, keys)
        answers = list[Answer]()

        def answer(start: int, stop: int) -> None:
            answers.extend(self.model.predict(inputs[start:stop], keys[start:stop]))

        size = self._size or PieceSize(len(inputs), least=1)
        try:
            with high_priority(self.device), listening(self.place.on_fallback):
                run_in_pieces(answer, len(inputs), size, "predictions", self.device)
        except SmallestBatchTooLarge as error:
            self._move_to_cpu(error)
            answer(error.done, len(inputs))
        else:
            self._size = size if size.rows < len(inputs) else self._size
        return answers

    def _move_to_cpu(self, error: SmallestBatchTooLarge) -> None:
        self.model, self.device = self._create_on_cpu(), CPU
        self.place.leave("predictions", error)
