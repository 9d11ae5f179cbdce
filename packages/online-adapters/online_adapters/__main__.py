"""The command `online-adapters` as a module: `python -m online_adapters`."""

from online_adapters.commands import main

main()
