"""`gpumond reference [PLATFORM]`: what others have measured, and where that is written."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpumond import codec
from gpumond.errors import ExitCode, UsageError
from gpumond.judge.reference import LINK_MODELS, LinkModel, Measurement, find, measurements

HELP = "show what is normal for a platform, and where it comes from"

_GB = 1e9
_MIB = 1 << 20
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class ReferenceDocument:
    """What `--json` prints, in base units."""

    measured: tuple[Measurement, ...]
    models: tuple[LinkModel, ...]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "platform",
        nargs="*",
        metavar="PLATFORM",
        help="words of the platform, e.g. H200; without any: the largest sizes",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def run(arguments: argparse.Namespace) -> int:
    words = " ".join(arguments.platform)
    found = find(words)
    if not found:
        known = ", ".join(dict.fromkeys(item.platform for item in measurements()))
        raise UsageError(f"no measurement of {words!r}", hint=f"Known platforms: {known}.")
    models = tuple(model for model in LINK_MODELS if _is_about(model, found))
    if arguments.json:
        print(codec.encode(ReferenceDocument(found, models), indent=2).decode())
    else:
        print("\n".join(_text(found if words else _largest(found), models)))
    return ExitCode.HEALTHY


def _is_about(model: LinkModel, found: Iterable[Measurement]) -> bool:
    return any(product in item.platform for product in model.product.split("|") for item in found)


def _largest(found: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """One line for each platform, collective and number of GPUs."""
    best: dict[tuple[str, str, int], Measurement] = {}
    for item in found:
        key = (item.platform, item.collective, item.gpus)
        if key not in best or (item.size_bytes or 0) > (best[key].size_bytes or 0):
            best[key] = item
    return tuple(best.values())


def _text(found: Iterable[Measurement], models: Iterable[LinkModel]) -> Iterator[str]:
    yield "measured by others (busbw in GB/s):"
    for item in found:
        yield (
            f"  {item.platform:<40} {item.gpus:>4} GPUs  {item.collective:<14} {_size(item.size_bytes):>8}"
            f" {item.busbw_bytes_per_second / _GB:8.2f}  {item.note}  [{item.source}]"
        )
    for number, model in enumerate(models):
        if number == 0:
            yield ""
            yield "link model of a ring, largest sizes (links x rate of one link x the share that rings reach):"
        yield (
            f"  {model.product.replace('|', ', '):<40} {model.links} x {model.link_bytes_per_second / _GB:.1f}"
            f" x {model.fraction} = {model.busbw_bytes_per_second / _GB:.1f}  [{model.source}]"
        )


def _size(size_bytes: int | None) -> str:
    if size_bytes is None:
        return "?"
    return f"{size_bytes // _GIB} GiB" if size_bytes >= _GIB else f"{size_bytes // _MIB} MiB"
