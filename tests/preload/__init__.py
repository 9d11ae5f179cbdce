"""Start programs in processes that have imported everything already.

Importing torch and its dependencies takes seconds, and the suite starts hundreds of processes. One process
imports all modules once and forks for each program that is to run:

    test --arguments, environment, file descriptors--> preloader
      ^                                                    | fork
      +------------ process id, exit status ---------------+--> the program: a real process

A forked program has its own memory, process id, signals and exit status. It is killed when the process that
requested it ends. Its own child processes are preloaded as well, because its `sys.executable` is the launcher.
"""

from tests.preload.client import ForkedProcess, PreloaderProcess, launcher
from tests.preload.server import interpreter_variables

__all__ = ["ForkedProcess", "PreloaderProcess", "interpreter_variables", "launcher"]
