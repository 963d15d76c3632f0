"""Messages as recordings write them: JSON in requests, trees of plain values in answers.

A tree is a dict by field name; enums are names, strings and bytes are bytes, and a field that may be absent
is there only if the message has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

Tree = dict[str, Any]
Variables = Mapping[str, Any]


class BadRecording(Exception):
    """The recording itself makes no sense (not: the server answered wrongly)."""


def text_bytes(form: object) -> bytes:
    """The bytes that a text of a recording stands for."""
    match form:
        case str():
            return form.encode()
        case {"hex": str(digits)}:
            return bytes.fromhex(digits)
        case {"utf8": str(text)}:
            return text.encode()
        case {"repeat": [unit, int(times)]}:
            return text_bytes(unit) * times
        case {"concat": list(parts)}:
            return b"".join(text_bytes(part) for part in parts)
    raise BadRecording(f"not a text: {form!r}")


def variable(form: Mapping[str, Any], variables: Variables) -> Any:
    """What {"$ref": name, "plus": n} stands for."""
    name = form["$ref"]
    if name not in variables:
        raise BadRecording(f"{name} was never bound")
    value = variables[name]
    return value + form["plus"] if "plus" in form else value


def request_bytes(kind: type[Message], form: Tree, variables: Variables) -> bytes:
    """A request as it goes over the wire."""
    if "raw_hex" in form:
        return bytes.fromhex(form["raw_hex"])
    message = kind()
    _fill(message, form, variables)
    return message.SerializeToString()


def _fill(message: Message, form: Tree, variables: Variables) -> None:
    for name, value in form.items():
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise BadRecording(f"{message.DESCRIPTOR.full_name} has no field {name}")
        if field.message_type is not None:
            inner = getattr(message, name)
            for item in value if field.is_repeated else [value]:
                part = inner.add() if field.is_repeated else inner
                part.SetInParent()
                _fill(part, item, variables)
        elif field.is_repeated:
            getattr(message, name).extend(_scalar(field, item, variables) for item in value)
        else:
            setattr(message, name, _scalar(field, value, variables))


def _scalar(field: Any, form: Any, variables: Variables) -> Any:
    if isinstance(form, dict) and "$ref" in form:
        return variable(form, variables)
    if field.enum_type is not None and isinstance(form, str):
        return field.enum_type.values_by_name[form].number
    return text_bytes(form) if field.type == FieldDescriptor.TYPE_BYTES else form


def tree_of(message: Message) -> Tree:
    """A message as plain values."""
    tree: Tree = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            if value:
                tree[field.name] = {key: tree_of(item) for key, item in sorted(value.items())}
        elif field.is_repeated:
            if value:
                tree[field.name] = [_plain(field, item) for item in value]
        elif not field.has_presence or message.HasField(field.name):
            tree[field.name] = _plain(field, value)
    return tree


def _plain(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return tree_of(value)
    if field.enum_type is not None and value in field.enum_type.values_by_number:
        return field.enum_type.values_by_number[value].name
    return value
