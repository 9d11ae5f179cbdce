"""A stack whose parameters lie on several ranks: what the engines have in common.

    every rank: rows --SplitStack.gradient--> its pieces of the gradient --descend--> its pieces of the copies
    snapshot:   pieces --whole tensors, one by one--> flat [L, P], the same as of a `Stack`, and back

It has the names and meaning of `Stack` where the network must not fit one device. All methods but `held_bytes` are
collective: every rank of the group calls them in the same order.

Shapes: L copies, P parameters of a copy, B rows, D inputs, C capacity for classes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from online.models.contract import Tensors
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.parallel.blocks import TensorPlace, named_places
from online.plugins.towers.parallel.descent import Descent, ParameterShard
from online.plugins.towers.stack import FLAT, LearningOptions, to_array

LossOfRows = Callable[[Tensor, Tensor], Tensor]  # logits [L, B, C] of some rows, and which rows [B] -> their loss


class SplitStack:
    """L copies that learn on several ranks.

    group: the ranks. device: of this rank. A subclass creates `module` and `mean_module` (the copies and their
    averages) and then calls `_begin`.
    """

    module: nn.Module
    mean_module: nn.Module

    def __init__(
        self, layout: ParameterLayout, learning: LearningOptions, group: dist.ProcessGroup, device: torch.device
    ) -> None:
        self.layout, self.learning, self.group, self.device = layout, learning, group, device
        self.device_type = device.type  # of the collectives
        self.places = named_places(layout, len(learning.rates))

    # what an engine decides

    def gradient(self, x_BD: Tensor, loss: LossOfRows) -> list[Tensor]:
        """Return the gradient of the sum of the losses of all rows, in this rank's pieces.

        loss: of the logits of some rows; a sum over rows, so that its parts add up. It must not hold collectives.
        """
        raise NotImplementedError

    def average_logits(self, x_BD: Tensor) -> Tensor:
        """Return the logits [L, B, C] of the averages, on every rank, without a graph."""
        raise NotImplementedError

    def whole(self, name: str, local: Tensor | None, shape: tuple[int, ...]) -> Tensor:
        """Return the whole tensor of parameter `name`. local: this rank's part, None where it has none."""
        assert local is not None
        spread = self._spread(name, local.to(self.device_type))
        return spread.full_tensor() if isinstance(spread, DTensor) else spread

    def share(self, parameter: Tensor) -> float:
        """Return the share of a parameter's square that this rank counts."""
        return 1.0

    # what they share

    def _begin(self) -> None:
        """Fill both modules with the first weights, and prepare the optimiser."""
        self.names = [name for name, _ in self.module.named_parameters()]
        self.parameters = [parameter for _, parameter in self.module.named_parameters()]
        averages = [parameter.requires_grad_(False) for parameter in self.mean_module.parameters()]
        pieces = [self._piece(*each) for each in zip(self.names, self.parameters, averages, strict=True)]
        learning = self.learning
        self.descent = Descent(pieces, learning.rates, learning.decay, learning.average, self.group)
        views = self.layout.views(self.layout.first(learning.seed)[None])
        for flat in ("parameters_LP", "average_LP"):
            self._fill(flat, lambda place: views[place.name][0])

    def _piece(self, name: str, parameter: Tensor, average: Tensor) -> ParameterShard:
        place = self.places[name]
        is_matrix = len(self.layout.shapes[place.name]) > 1
        return ParameterShard(local_part(parameter), local_part(average), place.copy, is_matrix, self.share(parameter))

    @torch.no_grad()
    def _fill(self, flat: str, tensor_at: Callable[[TensorPlace], Tensor]) -> None:
        """Set one of the flat tensors from the tensors of the layout."""
        locals_ = self.descent.tensors_of(flat)
        for name, parameter, local in zip(self.names, self.parameters, locals_, strict=True):
            place = self.places[name]
            write_part(local, parameter, place.turn(tensor_at(place)))

    def collect(self) -> list[Tensor]:
        """Return the gradient that a backward pass left at the parameters, in pieces; it is taken away from there."""
        found = []
        for parameter in self.parameters:
            slope = parameter.grad
            found.append(torch.zeros_like(local_part(parameter)) if slope is None else local_part(slope))
            parameter.grad = None
        return found

    def descend(self, gradient: Sequence[Tensor]) -> None:
        """Take the step of `Stack.descend`, and update the average."""
        self.descent.step(gradient)

    @property
    def steps(self) -> int:
        """The number of steps taken."""
        return self.descent.steps

    def held_bytes(self) -> int:
        """Return bytes of parameters, gradient, moments and average on this rank."""
        return self.descent.held_bytes()

    @torch.no_grad()
    def whole_tensors(self, flat: str, copy: int | None = None) -> Iterator[tuple[TensorPlace, Tensor]]:
        """Yield the tensors of the layout of one of the flat tensors, one after the other. copy: of this one only."""
        locals_ = dict(zip(self.names, self.descent.tensors_of(flat), strict=True))
        for name, place in self.places.items():
            if copy not in (None, place.copy):
                continue
            shape = self.layout.shapes[place.name]
            own = shape[::-1] if place.transposed else shape
            yield place, place.turn(self.whole(name, locals_.get(name), own))

    def flat(self, flat: str) -> Tensor:
        """Return one of the flat tensors [L, P], whole, in the memory of the host."""
        flat_LP = torch.zeros(len(self.learning.rates), sum(self.layout.sizes))
        views = self.layout.views(flat_LP)
        for place, whole in self.whole_tensors(flat):
            views[place.name][place.copy].copy_(whole)
        return flat_LP

    def whole_copy(self, choice: int) -> Tensor:
        """Return one of the averages or, after all of them, of the copies, as [1, P] in the memory of the host."""
        row_1P = torch.zeros(1, sum(self.layout.sizes))
        views = self.layout.views(row_1P)
        for place, whole in self.whole_tensors(*self._find_copy(choice)):
            views[place.name][0].copy_(whole)
        return row_1P

    def _find_copy(self, choice: int) -> tuple[str, int]:
        copies = len(self.learning.rates)
        return "average_LP" if choice < copies else "parameters_LP", choice % copies

    def help_gather(self, choice: int | None) -> None:
        """Take part in another rank's `whole_copy` or, without a choice, in its `tensors`."""
        wanted = [(flat, None) for flat in FLAT] if choice is None else [self._find_copy(choice)]
        for flat, copy in wanted:
            for _ in self.whole_tensors(flat, copy):
                pass  # it is dropped at once: this rank may have no room for all

    def tensors(self) -> Tensors:
        """Return the tensors of `Stack.tensors`: a `Stack` on one process restores them."""
        return {**{flat: to_array(self.flat(flat)) for flat in FLAT}, "steps": np.array(self.steps, np.float32)}

    def restore(self, tensors: Tensors) -> None:
        """Keep this rank's parts of the tensors of a stack, which may have been split otherwise or not at all."""
        shape = len(self.learning.rates), sum(self.layout.sizes)
        for flat in FLAT:
            self.fill_flat(flat, self.layout.views(torch.from_numpy(tensors[flat]).reshape(shape)))
        self.descent.set_steps(int(tensors["steps"]))

    def fill_flat(self, flat: str, views: Mapping[str, Tensor]) -> None:
        """Set one of the flat tensors. views: tensors [L, ...] by the layout's names."""
        self._fill(flat, lambda place: views[place.name][place.copy])

    def grow_from(self, before: "SplitStack") -> None:
        """Take over a stack of a smaller layout: its tensors fill the leading corners of these, one by one."""
        for flat in FLAT:
            own = dict(zip(self.names, self.descent.tensors_of(flat), strict=True))
            parameters = dict(zip(self.names, self.parameters, strict=True))
            for (name, place), (_, old) in zip(self.places.items(), before.whole_tensors(flat), strict=True):
                shape = self.layout.shapes[place.name]
                whole = place.turn(self.whole(name, own.get(name), shape[::-1] if place.transposed else shape)).clone()
                whole[tuple(slice(size) for size in old.shape)].copy_(old)
                if name in own:
                    write_part(own[name], parameters[name], place.turn(whole))
        self.descent.set_steps(before.steps)

    # checkpoints

    def _spread(self, name: str, local: Tensor) -> Tensor:
        """Return a rank's part of a tensor, as a part of the whole that parameter `name` is."""
        parameter = self.parameters[self.names.index(name)]
        if not isinstance(parameter, DTensor):
            return local
        mesh, places, shape = parameter.device_mesh, parameter.placements, parameter.shape
        return DTensor.from_local(local, mesh, places, run_check=False, shape=shape, stride=parameter.stride())

    def parts(self) -> dict[str, Tensor]:
        """Return the state by name, in this rank's parts, in memory that may be written.

        It is what `torch.distributed.checkpoint` saves, and what it loads in place. The names depend neither on the
        engine nor on the number of ranks.
        """
        state: dict[str, Tensor] = {"steps": torch.tensor([self.steps])}
        for flat in FLAT:
            locals_ = zip(self.names, self.descent.tensors_of(flat), strict=True)
            state |= {f"{flat}.{name}": self._spread(name, local) for name, local in locals_}
        return state

    def take_parts(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `parts()` into which a checkpoint was loaded."""
        self.descent.set_steps(int(state["steps"]))


def local_part(tensor: Tensor) -> Tensor:
    """This rank's part of a tensor, in the same memory."""
    return tensor.to_local().detach() if isinstance(tensor, DTensor) else tensor.detach()


def write_part(local: Tensor, parameter: Tensor, whole: Tensor) -> None:
    """Write this rank's part of a whole tensor. parameter: says which part that is."""
    if isinstance(parameter, DTensor):
        spread = distribute_tensor(whole, parameter.device_mesh, parameter.placements, src_data_rank=None)
        local.copy_(spread.to_local())
    else:
        local.copy_(whole)
