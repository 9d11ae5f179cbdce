"""Choose the device that models compute on."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from online.errors import SetupError

if TYPE_CHECKING:
    import torch
else:
    from online.models.lazy_torch import torch

ACCELERATORS = tuple(map(Path, ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")))  # of NVIDIA, of Windows' Linux, of AMD


def choose_device(wanted: Literal["auto", "cpu", "cuda"]) -> str:
    """Return "cuda" or "cpu". Raises SetupError if CUDA is required and not available.

    A Linux machine without any such device is recognised without torch, which takes a second to import.
    """
    is_without = sys.platform == "linux" and not any(path.exists() for path in ACCELERATORS)
    if wanted == "cpu" or (wanted == "auto" and is_without):
        return "cpu"
    if wanted == "cuda" and not torch.cuda.is_available():
        raise SetupError("the device cuda is not available: torch finds no CUDA device; use --device auto or cpu")
    return "cuda" if torch.cuda.is_available() else "cpu"
