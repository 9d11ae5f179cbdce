"""torch and other modules that take long to import, imported when one of their attributes is first used.

Importing torch takes as long as importing everything else that a server needs, and 120 MB. A server
of heads that the learner has solved answers without it, so its modules import torch from here.
"""

import os
import sys
from importlib import import_module
from itertools import accumulate
from typing import Any


class LazyModule:
    """Stands for a module and imports it at the first access to an attribute.

    The packages of the module come first: one that imports the module itself and another thread that imports it meanwhile
    would wait for each other, which Python ends with an error.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        for package in accumulate(self._module.split("."), lambda before, own: f"{before}.{own}"):
            module = import_module(package)
        value = getattr(module, name)
        setattr(self, name, value)  # later accesses find it without this method
        return value


torch = LazyModule("torch")


def use_one_thread() -> None:
    """Let torch compute on one thread of this process and of those it starts, also where it is imported later.

    Learning event by event multiplies small matrices. More threads make that slower, and on a machine that others use,
    ten times slower, because each product waits until all of them have run.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
