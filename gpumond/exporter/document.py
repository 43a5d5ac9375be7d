"""docs/metrics.md, made from the catalogue; a test holds the file equal to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gpumond.exporter.catalogue import AT_SCRAPE, PROCESS, STEADY
from gpumond.exporter.family import Family, Scrape, Section
from gpumond.model.status import HostStatus

_INTRODUCTION = """\
# Metrics

Generated from `gpumond/exporter/catalogue.py`; `make docs` writes it again.

Units are base units: bytes, seconds, bytes per second. `gpu` is the position in the accepted inventory, ordered by PCI
bus id; it moves only when a new inventory is accepted, and it is empty for a GPU that is not accepted yet. `uuid` never
moves. A value that could not be read has no sample: it is neither 0 nor NaN. Labels of the fleet (cluster, host) belong
to the scrape configuration. Control characters in names are shown as escapes; a name beyond 128 characters is cut and
ends in a digest.

`/metrics` answers in the text format 0.0.4 and in OpenMetrics 1.0.0, and takes `?name[]=` with whole sample names.
"""


def render_markdown() -> str:
    """The whole page."""
    return "\n".join((_INTRODUCTION, *(_section(section) for section in Section), _process_section()))


def _section(section: Section) -> str:
    families: list[Family[HostStatus] | Family[Scrape]] = [*STEADY, *AT_SCRAPE]
    rows = [row for family in families if family.section is section for row in _rows(family)]
    return "\n".join((f"## {section.value}\n", *rows))


def _rows(family: Family[HostStatus] | Family[Scrape]) -> Iterator[str]:
    labels = f"{{{', '.join(family.labels)}}}" if family.labels else ""
    yield f"### `{family.name}{labels}`\n"
    yield f"{family.help}\n"
    unit = f", in {family.unit.replace('_', ' ')}" if family.unit else ""
    yield f"{family.kind.value.capitalize()}{unit}. Read by `{family.read_by}`.\n"


def _process_section() -> str:
    names = "\n".join(f"- `{name}`" for name in PROCESS)
    return f"## Process\n\nOf the daemon itself, as every Prometheus client has them, read at the moment of the scrape:\n\n{names}\n"


if __name__ == "__main__":
    sys.stdout.write(render_markdown())
