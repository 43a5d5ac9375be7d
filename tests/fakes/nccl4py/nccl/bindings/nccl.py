"""NCCL's collectives over host memory, with the signatures of nccl4py 0.6's bindings. Everything happens at group_end.

FAKE_NCCL_FAULT: `corrupt` spoils the first element of the last rank's result, `fail` is an error of NCCL's.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from cuda.bindings.runtime import Clock

TYPES = {0: ctypes.c_int8, 2: ctypes.c_int32, 4: ctypes.c_int64, 7: ctypes.c_float, 8: ctypes.c_double}
FAULT = os.environ.get("FAKE_NCCL_FAULT", "")
SECONDS_PER_CALL = 1.0
"""So long that no launch on a busy machine is a tenth of it."""
VERSION = int(os.environ.get("FAKE_NCCL_VERSION", "22809"))


class NCCLError(RuntimeError):
    pass


@dataclass
class Comm:
    rank: int
    ranks: int


_calls: list[tuple[str, tuple]] = []
_is_open = False


def comm_init_all(count, devices):
    assert devices == list(range(count))
    _say_transport(count)
    return [Comm(rank, count) for rank in range(count)]


def _say_transport(count):
    """As NCCL does where NCCL_DEBUG is INFO."""
    pattern = os.environ.get("NCCL_DEBUG_FILE")
    if pattern and os.environ.get("NCCL_DEBUG") == "INFO":
        lines = [
            f"vm:1:2 [{rank}] NCCL INFO Channel 00/0 : {rank}[{rank}] -> {(rank + 1) % count}[0] via P2P/CUMEM\n"
            for rank in range(count)
        ]
        Path(pattern.replace("%h", "vm").replace("%p", str(os.getpid()))).write_text("".join(lines))


def comm_destroy(_comm):
    pass


def get_version():
    return VERSION


def get_library_path():
    return "/opt/fake/libnccl.so.2"


def group_start():
    global _is_open  # noqa: PLW0603
    _is_open = True


def group_end():
    global _is_open
    calls, _calls[:], _is_open = list(_calls), [], False
    if FAULT == "fail":
        raise NCCLError("unhandled cuda error")
    Clock.seconds += SECONDS_PER_CALL
    _run(calls)


def _collective(name):
    def call(*arguments):
        assert _is_open, "without a group the first call waits for the others for ever"
        _calls.append((name, arguments))

    return call


all_reduce = _collective("all_reduce")
reduce = _collective("reduce")
broadcast = _collective("broadcast")
all_gather = _collective("all_gather")
reduce_scatter = _collective("reduce_scatter")
allto_all = _collective("allto_all")
send = _collective("send")
recv = _collective("recv")


def _read(pointer, count, kind):
    return list((TYPES[kind] * count).from_address(pointer))


def _write(pointer, values, kind, comm):
    if FAULT == "corrupt" and comm.rank == comm.ranks - 1:
        values = [values[0] + 1, *values[1:]]
    (TYPES[kind] * len(values)).from_address(pointer)[:] = values


def _run(calls):
    names = {name for name, _ in calls}
    if names <= {"send", "recv"}:
        _run_messages(calls)
        return
    (name,) = names
    of_rank = {arguments[-2].rank: arguments for _, arguments in calls}
    assert sorted(of_rank) == list(range(len(calls)))
    ranks = len(calls)
    count, kind = of_rank[0][2:4]
    share = count * ctypes.sizeof(TYPES[kind])
    sent = count * ranks if name in ("reduce_scatter", "allto_all") else count
    data = {
        rank: _read(arguments[0], sent, kind)
        for rank, arguments in of_rank.items()
        if name != "broadcast" or rank == arguments[4]
    }
    for rank, arguments in of_rank.items():
        result = _result(name, data, rank, count, arguments)
        if result is not None:
            _write(arguments[1], result, kind, arguments[-2])
    assert share


def _result(name, data, rank, count, arguments):
    reduced = lambda: [_reduce(arguments[4], values) for values in zip(*data.values(), strict=True)]  # noqa: E731
    match name:
        case "all_reduce":
            return reduced()
        case "reduce":
            return reduced() if rank == arguments[5] else None
        case "broadcast":
            return data[arguments[4]]
        case "all_gather":
            return [value for source in sorted(data) for value in data[source]]
        case "reduce_scatter":
            return reduced()[rank * count : (rank + 1) * count]
        case "allto_all":
            return [
                value for source in sorted(data) for value in data[source][rank * count : (rank + 1) * count]
            ]


def _reduce(redop, values):
    total = values[0]
    for value in values[1:]:
        total = {0: total + value, 1: total * value, 2: max(total, value), 3: min(total, value)}[redop]
    return total


def _run_messages(calls):
    queues = {}
    for name, (pointer, count, kind, peer, comm, _stream) in calls:
        if name == "send":
            queues.setdefault((comm.rank, peer), []).append(_read(pointer, count, kind))
    for name, (pointer, _count, kind, peer, comm, _stream) in calls:
        if name == "recv":
            _write(pointer, queues[peer, comm.rank].pop(0), kind, comm)
    assert not any(queues.values()), "a message that nobody receives hangs"
