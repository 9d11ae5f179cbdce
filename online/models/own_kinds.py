"""Kinds of models that the operator brings: by entry point, or by import path.

    online.toml, command line --"package.module:attribute"--> admit --> ADMITTED[kind] = KindSpec
                              --name of an entry point in `online.models`--/

The attribute is a `KindSpec`, or a class that satisfies `contract.Model` and says its `task`. Only the operator's own
words reach `admit`; what is sent may name the built-in kinds alone (`registry.check_untrusted_options`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import cast, get_args

from online.models.contract import Model, Options
from online.models.kinds import ADMITTED, ALL_INPUTS, KINDS, Input, KindSpec, Task, find_kind
from online.models.operator_code import import_attribute, is_import_path
from online.models.wrappers import list_wrappers

GROUP = "online.models"
CONTRACT = (
    *("subtracts", "predict", "learn", "check", "unlearn", "drifted", "facts"),
    *("state", "restore", "fingerprint", "probes", "feature_epoch"),
)
GUIDE = "docs/how-to/write-a-model.md shows one"


def admit_all(models: Iterable[tuple[str, Options]]) -> None:
    """Admit the kinds of models, of those that their options add, and of the members of ensembles. Raises ValueError.

    models: kind and options of each.
    """
    for kind, options in models:
        added = [options.get(wrapper.option.name) for wrapper in list_wrappers()]
        contenders = options.get("contenders")
        members = options.get("members")
        inner = [
            *added,
            *(contenders.values() if isinstance(contenders, Mapping) else ()),
            *(members if isinstance(members, list) else ()),
        ]
        for name in (kind, *(each.get("kind") for each in inner if isinstance(each, Mapping))):
            if isinstance(name, str):
                admit(name)


def find_named_code(options: Mapping[str, object]) -> set[str]:
    """Return the import paths among the options of a model, and of those inside it. The option `key` names none."""
    texts = {value for name, value in options.items() if isinstance(value, str) and name != "key"}
    values = [each for value in options.values() for each in (value if isinstance(value, list) else [value])]
    inner = [find_named_code(value) for value in values if isinstance(value, Mapping)]
    return {text for text in texts if is_import_path(text)}.union(*inner)


def admit(kind: str) -> None:
    """Let the kind be used in this process, if the operator brings it. An unknown name is left to `spec_of`.

    Raises ValueError if it cannot be imported, or is neither a KindSpec nor a class that says its task.
    """
    if find_kind(kind) is not None:
        return
    if is_import_path(kind):
        ADMITTED[kind] = describe(kind, kind)
    elif (entry := find_entry_points().get(kind)) is not None:
        ADMITTED[kind] = describe(kind, entry.value.replace(" ", ""))


def find_entry_points() -> dict[str, EntryPoint]:
    """Return the kinds of installed packages by name, without those that have the name of a built-in kind."""
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in KINDS}


def describe(kind: str, path: str) -> KindSpec:
    """Return the KindSpec of what is at `path`, under the name that the operator uses. Raises ValueError."""
    found = import_attribute(path)
    if isinstance(found, KindSpec):
        spec = replace(found, name=kind)
        import_attribute(spec.path)
    elif isinstance(found, type):
        task = cast(Task, getattr(found, "task", ""))  # checked below
        spec = KindSpec(kind, path, task, tuple(getattr(found, "inputs", ALL_INPUTS)))
    else:
        raise ValueError(f"{path} is a {type(found).__name__}: name a KindSpec, or a class that is a model; {GUIDE}")
    check_spec(spec)
    return spec


def check_spec(spec: KindSpec) -> None:
    """Raise ValueError for a task or an input that does not exist, or a class that lacks a method."""
    if spec.task not in get_args(Task):
        raise ValueError(
            f"{spec.path} must say its task, one of {', '.join(get_args(Task))}, not {spec.task!r}; {GUIDE}"
        )
    if not spec.inputs or any(each not in get_args(Input) for each in spec.inputs):
        raise ValueError(f"{spec.path} must read one or more of {', '.join(get_args(Input))}, not {spec.inputs!r}")
    found = import_attribute(spec.path)
    if isinstance(found, type):
        check_contract(spec.path, found, CONTRACT[1:])  # `subtracts` may be an attribute of the object


def check_contract(path: str, model: object, names: Iterable[str] = CONTRACT) -> None:
    """Raise ValueError that names what an object or a class lacks of the Model contract.

    What is inherited from the protocol `Model` itself is missing, too: its methods do nothing.
    """
    missing = [name for name in names if getattr(model, name, None) is None or is_inherited(model, name)]
    if missing:
        raise ValueError(f"{path} is no model: it lacks {', '.join(missing)} of the Model contract; {GUIDE}")


def is_inherited(model: object, name: str) -> bool:
    """Return whether the attribute is that of the protocol `Model`."""
    own = model if isinstance(model, type) else type(model)
    return name in vars(Model) and getattr(own, name, None) is vars(Model)[name]


def create_own(spec: KindSpec, options: Options, device: str) -> Model:
    """Return a model of an admitted kind. Raises ValueError if it cannot be made, or does not satisfy the contract."""
    make = import_attribute(spec.path)
    try:
        model = make(options, device)
    except TypeError as error:
        raise ValueError(f"{spec.path} cannot be made with (options, device): {error}; {GUIDE}") from error
    check_contract(spec.path, model)
    return cast(Model, model)
