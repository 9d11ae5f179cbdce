"""torch, loaded when something of it is first used.

Loading it takes about as long as all else that a server loads, and 120 MB. A server of heads that the learner has solved
answers without it: what such a server loads imports it from here.
"""

from importlib import import_module
from typing import Any


class Torch:
    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module("torch"), name)
        setattr(self, name, value)  # found at once from now on
        return value


torch = Torch()
