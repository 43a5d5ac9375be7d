"""Prints topology as the tools do, in every layout, and damages it as pastes do; for tests of the readers.

Loaded by path (see tests/unit/parsers/conftest.py). Nothing here is shared with the code under test.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


@dataclass(frozen=True)
class Host:
    """A made-up host: labels of directed pairs, and what stands behind the matrix."""

    gpus: int
    nics: tuple[str, ...] = ()
    labels: dict[tuple[str, str], str] = field(default_factory=dict)
    cpus: tuple[str, ...] = ()
    numa: tuple[str, ...] = ()
    gpu_numa: tuple[str, ...] | None = None

    @property
    def gpu_names(self) -> list[str]:
        return [f"GPU{number}" for number in range(self.gpus)]

    @property
    def devices(self) -> list[str]:
        return [*self.gpu_names, *self.nics]


def nvidia_rows(host: Host) -> list[list[str]]:
    """Header and rows as lists of fields, the first one empty or the device."""
    titles = ["CPU Affinity", "NUMA Affinity"] + ([] if host.gpu_numa is None else ["GPU NUMA ID"])
    rows = [["", *host.devices, *titles]]
    for device in host.devices:
        cells = [" X " if peer == device else host.labels[device, peer] for peer in host.devices]
        if device in host.gpu_names:
            place = host.gpu_names.index(device)
            tail = [host.cpus[place], host.numa[place]]
            tail += [] if host.gpu_numa is None else ["", host.gpu_numa[place]]
        else:
            tail = [""] * (2 if host.gpu_numa is None else 4)
        rows.append([device, *cells, *tail])
    return rows


def nvidia_tabs(host: Host) -> str:
    """As a current driver writes it, escape codes included."""
    header, *rows = nvidia_rows(host)
    lines = ["\t\x1b[4m" + "\t".join(header[1:]) + "\x1b[0m", *("\t".join(row) for row in rows)]
    return "\n".join(lines) + "\n" + LEGEND + nic_legend(host)


def nvidia_spaces(host: Host) -> str:
    """The same after a terminal has made blanks of the tabs."""
    return nvidia_tabs(host).expandtabs(8)


def nic_legend(host: Host) -> str:
    numbered = [nic for nic in host.nics if nic.startswith("NIC")]
    if not numbered:
        return ""
    return "\nNIC Legend:\n\n" + "".join(f"  {nic}: mlx5_{place}\n" for place, nic in enumerate(numbered))


def nvidia_p2p(host: Host) -> str:
    lines = [" \t\x1b[4m" + "".join(f"{gpu}\t" for gpu in host.gpu_names) + "\x1b[0m"]
    for gpu in host.gpu_names:
        cells = ["X" if peer == gpu else host.labels[gpu, peer] for peer in host.gpu_names]
        lines.append(f" {gpu}\t" + "".join(f"{cell}\t" for cell in cells))
    return "\n".join(lines) + "\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"


def bdf(place: int) -> str:
    return f"0000:{place + 3:02x}:00.0"


def amd_text(host: Host, tables: dict[str, dict[tuple[str, str], str]]) -> str:
    """`amd-smi topology`: title, header, rows, columns 13 wide."""
    lines = []
    for title, cells in tables.items():
        lines.append(f"{title} TABLE:")
        lines.append(" " * 13 + "".join(f"{bdf(place):<13}" for place in range(host.gpus)))
        for place, gpu in enumerate(host.gpu_names):
            row = "".join(f"{cells.get((gpu, peer), 'SELF'):<13}" for peer in host.gpu_names)
            lines.append(f"{bdf(place):<13}{row}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def amd_json_keyed(host: Host, tables: dict[str, dict[tuple[str, str], str]]) -> str:
    """ROCm 6.0 and 6.1."""
    document = [
        {"gpu": place}
        | {
            key: {f"gpu_{n}": cells.get((gpu, peer), "SELF") for n, peer in enumerate(host.gpu_names)}
            for key, cells in tables.items()
        }
        for place, gpu in enumerate(host.gpu_names)
    ]
    return json.dumps(document, indent=4)


def amd_json_links(host: Host, tables: dict[str, dict[tuple[str, str], str]]) -> str:
    """ROCm 6.2 and later."""
    document = [
        {
            "gpu": place,
            "bdf": bdf(place),
            "links": [
                {"gpu": n, "bdf": bdf(n)}
                | {key: cells.get((gpu, peer), "SELF") for key, cells in tables.items()}
                for n, peer in enumerate(host.gpu_names)
            ],
        }
        for place, gpu in enumerate(host.gpu_names)
    ]
    return json.dumps(document, indent=4)


def amd_csv(host: Host, tables: dict[str, dict[tuple[str, str], str]]) -> str:
    header = ["gpu", "bdf", *(f"{key}_gpu_{n}" for key in tables for n in range(host.gpus))]
    lines = [",".join(header)]
    for place, gpu in enumerate(host.gpu_names):
        cells = [cells.get((gpu, peer), "SELF") for cells in tables.values() for peer in host.gpu_names]
        quoted = [f'"{cell}"' if "," in cell else cell for cell in cells]
        lines.append(",".join([str(place), bdf(place), *quoted]))
    return "\r\n".join(lines) + "\r\n"


def rocm_text(host: Host, tables: dict[str, dict[tuple[str, str], str]], numa: tuple[str, ...] = ()) -> str:
    """`rocm-smi --showtopo`: names 6 wide, cells 12 wide, 0 on each diagonal."""
    lines = [" ROCm System Management Interface ".center(90, "=")]
    for title, cells in tables.items():
        lines.append(f" {title} between two GPUs ".center(90, "="))
        lines.append(" " * 7 + "".join(f"{gpu:<13}" for gpu in host.gpu_names))
        for gpu in host.gpu_names:
            row = "".join(f"{cells.get((gpu, peer), '0'):<13}" for peer in host.gpu_names)
            lines.append(f"{gpu:<7}{row}")
        lines.append("")
    if numa:
        lines.append(" Numa Nodes ".center(90, "="))
    for place, node in enumerate(numa):
        lines.append(f"GPU[{place}]\t\t: (Topology) Numa Node: {node}")
        lines.append(f"GPU[{place}]\t\t: (Topology) Numa Affinity: {node}")
    lines.append(" End of ROCm SMI Log ".center(90, "="))
    return "\n".join(lines) + "\n"
