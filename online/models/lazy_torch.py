"""torch, imported when one of its attributes is first used.

Importing torch takes as long as importing everything else that a server needs, and 120 MB. A server
of heads that the learner has solved answers without it, so its modules import torch from here.
"""

from importlib import import_module
from typing import Any


class Torch:
    """Stands for the module torch and imports it at the first access to an attribute."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module("torch"), name)
        setattr(self, name, value)  # later accesses find it without this method
        return value


torch = Torch()
