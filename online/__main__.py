"""`python -m online` is the `online` command."""

from online.cli.app import main

if __name__ == "__main__":
    main()
