"""Compare our .proto files with those of a vendor.

The vendor's are described as JSON in that vendor's environment, and compared in ours.
"""

from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FileDescriptor


def describe_fields(message: Descriptor) -> dict[str, list[int]]:
    """Map each field of a message to [number, type]."""
    return {field.name: [field.number, field.type] for field in message.fields}


def wire(files: list[FileDescriptor]) -> dict[str, Any]:
    """Describe every message, enum and method of the files and of those they import, by its full name."""
    descriptions: dict[str, Any] = {}

    def add(message: Descriptor) -> None:
        descriptions[message.full_name] = describe_fields(message)
        for nested in message.nested_types:
            add(nested)
        for enum in message.enum_types:
            add_enum(enum)

    def add_enum(enum: EnumDescriptor) -> None:
        descriptions[enum.full_name] = {value.name: [value.number] for value in enum.values}

    files = list(files)
    seen = set()
    while files:
        file = files.pop()
        if file.name in seen:
            continue
        seen.add(file.name)
        files += [*file.dependencies, *file.public_dependencies]
        for message in file.message_types_by_name.values():
            add(message)
        for enum in file.enum_types_by_name.values():
            add_enum(enum)
        for service in file.services_by_name.values():
            descriptions[service.full_name] = {
                method.name: [method.input_type.full_name, method.output_type.full_name] for method in service.methods
            }
    return descriptions


def assert_is_subset(ours: FileDescriptor, theirs: dict[str, Any]) -> None:
    """Assert that everything in our file is the same in theirs, which may have more."""

    def compare(message: Descriptor) -> None:
        for field in message.fields:
            assert theirs[message.full_name][field.name] == [field.number, field.type], field.full_name
        for nested in message.nested_types:
            compare(nested)
        for enum in message.enum_types:
            compare_enum(enum)

    def compare_enum(enum: EnumDescriptor) -> None:
        assert {value.name: [value.number] for value in enum.values}.items() <= theirs[enum.full_name].items()

    for message in ours.message_types_by_name.values():
        compare(message)
    for enum in ours.enum_types_by_name.values():
        compare_enum(enum)
    for service in ours.services_by_name.values():
        methods = {m.name: [m.input_type.full_name, m.output_type.full_name] for m in service.methods}
        assert methods.items() <= theirs[service.full_name].items()
