"""A YAML text as a tree in which every value knows its line. The only door to yaml.

Owns the subset that a configuration needs: mappings, lists, text. A scalar stays the text that was written, so that a
user called `123` or `no` is a user. Refuses aliases, which can make a small file large, and a key that stands twice, of
which YAML itself would drop one without a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import yaml

Value: TypeAlias = "str | dict[str, Entry] | list[Entry]"


@dataclass(frozen=True, slots=True)
class Entry:
    """A value and the line on which it begins; for the value of a key, the line of the key."""

    line: int
    value: Value


class DocumentError(ValueError):
    """A text that is no document of this kind. `line` is 0 where none can be named."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


def parse_document(text: str) -> dict[str, Entry]:
    """The top level of a document; empty for an empty one. Raises DocumentError."""
    try:
        root = _Loader(text).get_single_node()
        if root is None:
            return {}
        value = _value(root)
    except yaml.MarkedYAMLError as error:
        raise DocumentError(f"not valid YAML: {_said(error)}", _line(error.problem_mark)) from None
    except yaml.YAMLError as error:
        raise DocumentError(f"not valid YAML: {error}") from None
    except RecursionError:
        raise DocumentError("not valid YAML: nested too deep") from None
    if not isinstance(value, dict):
        if value == "":  # a document that holds nothing but `---`
            return {}
        raise DocumentError("must be a mapping, such as `tls_server_config:`", 1)
    return value


class _Loader(yaml.BaseLoader):  # type: ignore[misc] # the library has no types
    def compose_node(self, parent: object, index: object) -> yaml.Node:
        if self.check_event(yaml.AliasEvent):
            raise DocumentError("aliases (*name) are not supported", _line(self.peek_event().start_mark))
        return super().compose_node(parent, index)


def _value(node: yaml.Node) -> Value:
    if isinstance(node, yaml.MappingNode):
        return _mapping(node)
    if isinstance(node, yaml.SequenceNode):
        return [Entry(_line(item.start_mark), _value(item)) for item in node.value]
    is_null = node.style is None and node.value in ("null", "Null", "NULL", "~")
    return "" if is_null else str(node.value)


def _mapping(node: yaml.MappingNode) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for key, value in node.value:
        line = _line(key.start_mark)
        if not isinstance(key, yaml.ScalarNode):
            raise DocumentError("a key must be text", line)
        if key.value in found:
            raise DocumentError(f"{key.value} stands twice", line)
        found[str(key.value)] = Entry(line, _value(value))
    return found


def _said(error: yaml.MarkedYAMLError) -> str:
    return str(error.problem or error.context or "unreadable")


def _line(mark: yaml.Mark | None) -> int:
    return 0 if mark is None else int(mark.line) + 1
