"""The type of a function that long work calls now and then, to say how far it is."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]  # the step, how much of it is done, of how much
