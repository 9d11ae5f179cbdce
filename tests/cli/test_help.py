"""The help: every command has examples, and a misspelling gets a suggestion."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from online.cli.app import app
from tests.support import run_online


def visible_commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    for key, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from visible_commands(command, f"{name} {key}")
        elif not command.hidden:
            yield f"{name} {key}", command


COMMANDS = dict(visible_commands(get_command(app), "online"))


def examples(command: Any) -> list[str]:
    lines = str(command.help).partition("\b\n")[2].splitlines()[1:]
    return [line.strip() for line in lines if line.strip()]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_examples(name: str) -> None:
    assert examples(COMMANDS[name]) and all(name in example for example in examples(COMMANDS[name]))


@pytest.mark.parametrize(
    ("name", "example"), [(name, example) for name, command in COMMANDS.items() for example in examples(command)]
)
def test_the_options_of_an_example_are_those_of_its_command(name: str, example: str) -> None:
    words = shlex.split(example.partition(f"{name}")[2].partition(" > ")[0])
    COMMANDS[name].make_context(name, words, resilient_parsing=False)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_sentence_of_help(name: str) -> None:
    for parameter in COMMANDS[name].params:
        if not getattr(parameter, "hidden", False) and parameter.name != "help":
            assert str(parameter.help).endswith("."), f"{name} {parameter.name}: {parameter.help}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("replya",), "No such command 'replya'. Did you mean 'replay'?"),
        (("serve", "--prot", "1"), "No such option: --prot (Possible options: --host, --port)"),
        (("predict", "--oot", "x"), "--out"),
    ],
)
def test_a_misspelling_gets_a_suggestion(arguments: tuple[str, ...], words: str) -> None:
    process = run_online(*arguments)
    assert process.returncode == 2 and words in process.stderr
