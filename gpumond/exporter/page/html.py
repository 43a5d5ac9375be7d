"""HTML that is escaped by construction: text is a `str`, markup is a `Markup`, and only `element` makes the second.

Knows no page. A string from a driver can reach a page only as text or as a quoted attribute value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

_VOID = frozenset({"link", "meta"})


@dataclass(frozen=True, slots=True)
class Markup:
    """HTML that needs no escaping any more."""

    html: str


Node: TypeAlias = str | Markup


def element(tag: str, *children: Node, **attributes: str) -> Markup:
    """`<tag attributes>children</tag>`; a trailing underscore of an attribute's name is dropped (`class_`)."""
    pairs = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_text(value)}"'
        for name, value in attributes.items()
        if value
    )
    start = f"<{tag}{pairs}>"
    return Markup(start if tag in _VOID else f"{start}{join(children).html}</{tag}>")


def join(nodes: Iterable[Node]) -> Markup:
    return Markup("".join(node.html if isinstance(node, Markup) else _text(node) for node in nodes))


def document(head: Iterable[Node], body: Iterable[Node]) -> str:
    page = element("html", element("head", *head), element("body", *body), lang="en")
    return f"<!DOCTYPE html>\n{page.html}\n"


def _text(text: str) -> str:
    # A lone surrogate cannot be encoded; in a page it is as good as any other unknown character.
    return escape(text.encode("utf-8", "replace").decode())
