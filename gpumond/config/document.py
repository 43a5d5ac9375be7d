"""docs/configuration.md, written from the schema: what a key means is said once, beside its type.

`python -m gpumond.config.document > docs/configuration.md` renews the page; a test holds the two equal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gpumond.config.keys import Key, Section, sections

_OPENING = """\
# Configuration

gpumond reads one TOML file, `/etc/gpumond/config.toml`. Every table and nearly every key may be left out: an empty
file is valid and means snapshots and the exporter, without any benchmark. [config.example.toml](../config.example.toml)
holds every key with its default.

- `gpumond check-config [FILE]` prints every problem as `file:line: key: message`, or what the file means.
- An unknown key is an error, with a suggestion where one is near.
- `systemctl reload gpumond` (SIGHUP) applies a changed file as a whole, or not at all: with a mistake in it the old
  configuration stays in force, and `gpumond_config_last_reload_successful` is 0. A running sweep ends as it began.
  Keys marked *restart* are reported and wait for the next start.
- Paths are absolute. There is no key for a secret, and values of `benchmark.environment` never appear in a message.

How values are written:

| kind | examples | means |
| --- | --- | --- |
| duration | `"500ms"`, `"60s"`, `"5m"`, `"1h30m"`, `"2d"` | text with its unit; a bare number is refused |
| size | `8`, `"64MiB"`, `"2GiB"`, `"1G"` | bytes; K, M, G and T are powers of 1024, as nccl-tests reads them. `MB` and `GB` are refused as ambiguous |
| host:port | `":10061"`, `"127.0.0.1:10061"`, `"[::1]:10061"` | an empty host is every address |
| times of day | `"02:00-05:00"`, `"22:00-04:00"`, `"00:00-24:00"` | wall clock; the second may pass midnight |
| name | `"nightly"` | 1 to 64 of the characters a-z, 0-9, `_` and `-` |

This page is generated from the schema: `python -m gpumond.config.document > docs/configuration.md`.
"""


def render_markdown() -> str:
    """The whole page."""
    return "\n".join([_OPENING, *(_section(section) for section in sections())])


def _section(section: Section) -> str:
    paragraphs = [f"## `{section.header}`", _unfolded(section.text), *(_key(key) for key in section.keys)]
    return "\n\n".join(paragraphs) + "\n"


def _unfolded(text: str) -> str:
    """A docstring without its indentation and line breaks, paragraph by paragraph."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _key(key: Key) -> str:
    return f"### `{key.name}`\n\n{' · '.join(_facts(key))}\n\n{key.description}\n\n{_examples(key)}"


def _facts(key: Key) -> Iterator[str]:
    yield key.shape.words
    if key.is_required:
        yield "required"
    elif key.default is None:
        yield "not set by default"
    else:
        yield f"default `{key.default}`"
    if key.bounds:
        yield key.bounds
    if key.needs_restart:
        yield "*restart*"
    if key.shape.choices:
        yield "one of " + ", ".join(f"`{choice}`" for choice in key.shape.choices)


def _examples(key: Key) -> str:
    first, *others = key.examples
    return ", or ".join([f"For example `{key.name} = {first}`", *(f"`{other}`" for other in others)]) + "."


if __name__ == "__main__":
    sys.stdout.write(render_markdown())
