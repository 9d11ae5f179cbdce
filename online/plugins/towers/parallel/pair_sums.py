"""Sums in a fixed order, so that their bits do not depend on who computed which part.

    0   1   2   3   4        parts, in order
     \\ /     \\ /    |
     01      23     4        floats are not associative: (a + b) + c and a + (b + c) may differ
       \\    /       |
        0123        4        these pairs are added, by any process
            \\      /
             01234

Of P parts on N ranks, rank r adds its P / N consecutive ones, and the ranks' sums are added in the same way. Where P / N
is a power of two, that is the same tree as that of one process which has all parts.
"""

from collections.abc import Iterable, Sequence

from torch import Tensor


def add_in_pairs(parts: Iterable[Sequence[Tensor]]) -> list[Tensor]:
    """Return the sums of equally long lists of tensors, by the tree. Keeps at most log2 of the parts; may overwrite them."""
    waiting: list[tuple[int, Sequence[Tensor]]] = []  # sums of 2^level parts, levels falling
    for part in parts:
        level = 0
        while waiting and waiting[-1][0] == level:
            part, level = add_lists(waiting.pop()[1], part), level + 1
        waiting.append((level, part))
    total = waiting.pop()[1]
    while waiting:
        total = add_lists(waiting.pop()[1], total)
    return list(total)


def add_lists(left: Sequence[Tensor], right: Sequence[Tensor]) -> list[Tensor]:
    """Add lists of tensors, in place of the first."""
    return [a.add_(b) for a, b in zip(left, right, strict=True)]


def fits(parts: int, ranks: int) -> bool:
    """Return whether the sums of `ranks` processes have the bits of one process."""
    share, rest = divmod(parts, ranks)
    return not rest and share > 0 and share & (share - 1) == 0


def most_ranks(parts: int, available: int) -> int:
    """Return the largest number of ranks, at most `available`, whose sums have the bits of one process."""
    return max(ranks for ranks in range(1, max(available, 1) + 1) if fits(parts, ranks) or ranks == 1)
