"""What others have measured, with sources, and what the links of a host should give. Knows no history.

The table holds measurements only: published thresholds and ceilings are as often wrong as right (half a healthy B200
passes one of them). The link model is for hosts without a past: the fewest links of a GPU x what NCCL's or RCCL's own
model gives one link x the fraction that rings reach. Without the name of the GPU it takes the slowest link of that
class, so that it can only be too kind.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from gpumond.model.benchmark import Collective

_GB: Final = 1e9


@dataclass(frozen=True, slots=True)
class Measurement:
    """One published result; `size_bytes` None where the source gives a range."""

    platform: str
    gpus: int
    collective: str
    datatype: str
    size_bytes: int | None
    busbw_bytes_per_second: float
    note: str
    source: str


@lru_cache(maxsize=1)
def measurements() -> tuple[Measurement, ...]:
    text = files("gpumond.judge").joinpath("reference.csv").read_text(encoding="utf-8")
    return tuple(_measurement(row) for row in csv.DictReader(text.splitlines()))


def _measurement(row: Mapping[str, str]) -> Measurement:
    return Measurement(
        platform=row["platform"],
        gpus=int(row["gpus"]),
        collective=row["collective"],
        datatype=row["datatype"],
        size_bytes=int(row["size_bytes"]) if row["size_bytes"] else None,
        busbw_bytes_per_second=float(row["busbw_gbps"]) * _GB,
        note=row["note"],
        source=row["source"],
    )


def find(platform: str) -> tuple[Measurement, ...]:
    """Those whose platform has every word of `platform`, in the order of the table."""
    words = platform.lower().split()
    return tuple(item for item in measurements() if all(word in item.platform.lower() for word in words))


@dataclass(frozen=True, slots=True)
class LinkModel:
    """What one link carries in a ring, for GPUs whose name matches `product`."""

    product: str
    topology_class: str
    links: int
    link_bytes_per_second: float
    fraction: float
    source: str

    @property
    def busbw_bytes_per_second(self) -> float:
        """With all links up."""
        return self.links * self.link_bytes_per_second * self.fraction


_NCCL: Final = "NVIDIA/nccl src/graph/topo.h @5067397c"
_RCCL: Final = "ROCm/rccl src/graph/topo.h"
_NVSWITCH: Final = "nvswitch"
_XGMI: Final = "xgmi"

LINK_MODELS: Final = (
    LinkModel("A100", _NVSWITCH, 12, 20.0e9, 0.97, f"{_NCCL}; 8 x A100 reach 234.9 of 240.0"),
    LinkModel(
        "H100|H200|H20", _NVSWITCH, 18, 20.6e9, 0.97, f"{_NCCL}; 8 x H200 reach 361.4 to 367.6 of 370.8"
    ),
    LinkModel("B200", _NVSWITCH, 18, 40.1e9, 0.93, f"{_NCCL}; 8 x B200 reach 682.2 of 721.8"),
    LinkModel("MI300X|MI325X", _XGMI, 7, 48.0e9, 0.93, f"{_RCCL}; 8 x MI300X reach 312.9 of 336.0"),
)
"""As gpumond.topology.expected has them for NVSwitch: fractions with a measured ring behind them, and no others."""

_UNNAMED: Final = {_NVSWITCH: ((13, 20.6e9), (1, 20.0e9)), _XGMI: ((1, 36.0e9),)}
"""(from this many links, slowest link of a GPU that has so many); xGMI of MI250 is 36."""
_UNNAMED_FRACTION: Final = 0.93

_RING: Final = frozenset({Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER})
_HOST_RANKS_MAX: Final = 8
"""More ranks are several hosts, or a rack: another network is the limit."""
_GATHERING_RANKS_MIN: Final = 4
"""all_gather of two H200s reaches 270 GB/s at 1 GiB where a ring reaches 360: too near to the limit to judge."""
_NAME_KEYS: Final = re.compile(r"gpu[._-]?(model|name|type)|^(gpu|gpus|model|name|product|platform)$")
_NAMED: Final = re.compile(r"[A-Za-z]{1,4}\d{2,4}")


def link_model_busbw(
    topology: Mapping[str, Any], fingerprint: Mapping[str, Any], collective: str, ranks: int
) -> float | None:
    """Bytes per second of a ring of `ranks` GPUs; None where the model does not apply, or something is not known."""
    topology_class = str(topology.get("class", "")).lower()
    links = _fewest(topology.get("links"))
    if topology_class not in _UNNAMED or not links or not is_modelled(collective, ranks):
        return None
    name = _gpu_name((topology, fingerprint))
    if topology_class == _XGMI:
        links = min(links, ranks - 1)  # a full mesh: links to GPUs outside the set carry nothing
    if not name:
        slowest = next(rate for least, rate in _UNNAMED[topology_class] if links >= least)
        return links * slowest * _UNNAMED_FRACTION
    model = link_model_of(name, topology_class)
    if model is None:
        return None
    return (
        min(links, model.links) * model.link_bytes_per_second * model.fraction
    )  # a product has no more than these


def is_modelled(collective: str, ranks: int) -> bool:
    """Whether rings of so many GPUs were measured against the model, near enough to judge by it."""
    if collective not in _RING or not 1 < ranks <= _HOST_RANKS_MAX:
        return False
    return collective == Collective.ALL_REDUCE or ranks >= _GATHERING_RANKS_MIN


def link_model_of(gpu_name: str, topology_class: str) -> LinkModel | None:
    """`GH200` is no `H200`, and `H200 NVL` has bridges instead of switches: the class tells."""
    return next(
        (
            model
            for model in LINK_MODELS
            if model.topology_class == topology_class and re.search(rf"\b({model.product})\b", gpu_name)
        ),
        None,
    )


def _gpu_name(documents: Iterable[Mapping[str, Any]]) -> str:
    """The first text under a key that names a GPU, and that looks like the name of a product."""
    for document in documents:
        for key, value in document.items():
            if _NAME_KEYS.search(key.lower()) and isinstance(value, str) and _NAMED.search(value):
                return value
    return ""


def _fewest(links: Any) -> int:
    """The fewest links of a GPU, out of a number, a text like `NV18`, a list or a mapping; 0 where that is not told."""
    counts = list(_counts(links))
    return min(counts) if counts else 0


def _counts(links: Any) -> Iterator[int]:
    if isinstance(links, bool) or links is None:
        return
    if isinstance(links, int | float):
        yield int(links)
    elif isinstance(links, str):
        if match := re.search(r"\d+", links):
            yield int(match.group())
    elif isinstance(links, Mapping):
        for value in links.values():
            yield from _counts(value)
    elif isinstance(links, Iterable):
        for value in links:
            yield from _counts(value)
