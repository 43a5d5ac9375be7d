"""The body of a made-up nccl-tests binary: replays a capture line by line, with the faults that a script asks for.

In Python, not in C: it must misbehave in a dozen ways, none of which needs speed, and 20 ms of start-up against 1.75 s
of a real benchmark disturb no test. benchmark_stand_in.py installs it under a benchmark's name, with the script beside
it (`NAME.script.json`): the environment of a benchmark is an allow-list, so a variable would never arrive.

Of the command line it obeys sizes (-b -e -f -i), ranks (-g -t) and the numbers of the run line; sizes that the capture
does not hold are interpolated, so that their arithmetic is right. Each start is noted in `NAME.calls.jsonl`.
"""

import itertools
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

HANG_SECONDS_MAX = 120
"""A stand-in that a broken test forgets ends by itself."""
STAND_IN_ERROR = 97
"""Exit status where a test asks for what the capture cannot give; nccl-tests has no such status."""

OPTIONS = {
    "-t": "nthreads", "-g": "ngpus", "-b": "minbytes", "-e": "maxbytes", "-i": "stepbytes", "-f": "stepfactor",
    "-n": "iters", "-m": "agg_iters", "-w": "warmup_iters", "-N": "run_cycles", "-p": "parallel_init", "-c": "check",
    "-o": "op", "-d": "datatype", "-r": "root", "-z": "blocking", "-y": "stream_null", "-T": "timeout",
    "-G": "cudagraph", "-C": "report_cputime", "-S": "report_timestamps", "-J": "output_file", "-a": "average",
    "-R": "local_register", "-x": "cta_policy", "-D": "device_implementation", "-V": "device_cta_count",
    "-M": "memory_report", "-u": "unalign", "-I": "per_iteration", "-K": "unknown",
}  # fmt: skip
ROW = re.compile(r"\s*\d+\s+\d+\s+\w+\s")
MULTIPLES = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def main() -> None:
    program = Path(sys.argv[0])
    script = json.loads(Path(f"{program}.script.json").read_text())
    note_call(program)
    if script["ignore_sigterm"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    start_grandchild(script["grandchild"])
    for line in script["errors"]:
        os.write(2, line.encode() + b"\n")
    options = read_options(sys.argv[1:])
    if script["runs_without_p2p"] and os.environ.get("NCCL_P2P_DISABLE") == "1":
        script |= {"ending": "complete", "after_row": None}
    if options is None or script["usage"]:
        put(Path(script["usage_file"]).read_text())
        return
    header, captured, footer = read_capture(
        Path(script["capture_file"]).read_text(), verbatim=script["verbatim"]
    )
    rows = captured
    if not script["verbatim"]:
        check(options)
        header = [fill_run_line(line, options) for line in header]
        rows = (
            [unchecked(row_of_size(captured, size), options) for size in sizes(options)] if captured else []
        )
    play(script, header, rows, footer, captured)


def note_call(program: Path) -> None:
    call = {
        "pid": os.getpid(),
        "arguments": sys.argv[1:],
        "environment": dict(os.environ),
        "directory": str(Path.cwd()),
    }
    with Path(f"{program}.calls.jsonl").open("a") as file:
        file.write(json.dumps(call) + "\n")


# --- playing ---


def play(
    script: dict, header: list[str], rows: list[list[str]], footer: list[str], captured: list[list[str]]
) -> None:
    after = len(rows) if script["after_row"] is None else script["after_row"]
    for line in header:
        put(line + "\n")
    time.sleep(script["seconds_before_first_row"])
    printed = []
    for number, row in enumerate(rows[:after], start=1):
        shown = edited(row, number, script)
        put(render(shown) + "\n")
        printed.append(shown)
        time.sleep(script["seconds_per_row"])
    end(script, rows, after)
    for line in footer:
        put((line if printed == captured else with_average(line, printed)) + "\n")
    time.sleep(script["seconds_before_exit"])
    sys.exit(script["exit_status"])


def end(script: dict, rows: list[list[str]], after: int) -> None:
    """Returns where the benchmark ends as it should."""
    match script["ending"]:
        case "hang":
            hang()
        case "half_row_hang":
            put(render(rows[min(after, len(rows) - 1)])[:70])
            hang()
        case "signal":
            os.kill(os.getpid(), script["signal"])
            hang()
        case "exit":
            sys.exit(script["exit_status"])
        case "flood":
            line = b"# " + b"x" * 97 + b"\n"
            for _ in range(script["flood_bytes"] // len(line)):
                os.write(1, line)


def hang() -> None:
    time.sleep(HANG_SECONDS_MAX)
    sys.exit(STAND_IN_ERROR)


def put(text: str) -> None:
    """As nccl-tests does: line buffered, so what has no newline yet arrives too only because a test asks for it."""
    os.write(1, text.encode())


def start_grandchild(kind: str | None) -> None:
    if kind is None or os.fork() != 0:
        return
    if kind != "plain":
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
    if kind != "holds_pipe":
        null = os.open("/dev/null", os.O_RDWR)
        for descriptor in (1, 2):
            os.dup2(null, descriptor)
    hang()


# --- the command line ---


def read_options(arguments: list[str]) -> dict[str, str] | None:
    """None where nccl-tests would print its usage (and exit with 0)."""
    long_names = {f"--{name}": name for name in OPTIONS.values()}
    options: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in long_names:
            options[long_names[name]] = value if equals else next(words, "")
        elif word[:2] in OPTIONS and not word.startswith("--"):
            options[OPTIONS[word[:2]]] = word[2:] or next(words, "")
        else:
            return None
    return options


def bytes_of(text: str) -> int:
    unit = text[-1:].upper()
    return int(float(text[:-1]) * MULTIPLES[unit]) if unit in MULTIPLES else int(text)


def sizes(options: dict[str, str]) -> list[int]:
    low, high = limits_of(options)
    found, size = [], low
    while size <= high:
        found.append(size)
        if "stepfactor" in options:
            size = max(size + 1, int(size * float(options["stepfactor"])))
        else:
            size += bytes_of(options.get("stepbytes", "1M"))
    return found


def limits_of(options: dict[str, str]) -> tuple[int, int]:
    return bytes_of(options.get("minbytes", "32M")), bytes_of(options.get("maxbytes", "32M"))


def ranks_of(options: dict[str, str]) -> int:
    return int(options.get("ngpus", "1")) * int(options.get("nthreads", "1"))


def check(options: dict[str, str]) -> None:
    low, high = limits_of(options)
    if low > high:
        os.write(2, f"invalid sizes for 'minbytes' and 'maxbytes': {low} > {high}\n".encode())
        sys.exit(255)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("ROCR_VISIBLE_DEVICES")
    found = len(visible.split(",")) if visible else 2
    if ranks_of(options) > found:
        os.write(
            2,
            f"Invalid number of GPUs: {ranks_of(options)} requested but only {found} were found.\n".encode(),
        )
        sys.exit(5)
    if ranks_of(options) != 2:
        os.write(2, f"stand-in: the capture is of 2 ranks, not of {ranks_of(options)}\n".encode())
        sys.exit(STAND_IN_ERROR)


# --- the capture ---


def read_capture(text: str, *, verbatim: bool) -> tuple[list[str], list[list[str]], list[str]]:
    """Header lines, rows as words (verbatim: as one), footer lines."""
    lines = text.split("\n")[:-1]
    places = [place for place, line in enumerate(lines) if ROW.match(line)]
    if not places:
        return lines, [], []
    if verbatim:  # any layout; only what stands between the first and the last row is paced
        return (
            lines[: places[0]],
            [[line] for line in lines[places[0] : places[-1] + 1]],
            lines[places[-1] + 1 :],
        )
    rows = [words_of(lines[place]) for place in places]
    return lines[: places[0]], rows, lines[places[-1] + 1 :]


def words_of(line: str) -> list[str]:
    """Thirteen: hypercube leaves its redop blank."""
    words = line.split()
    return words if len(words) == 13 else [*words[:3], "", *words[3:]]


def fill_run_line(line: str, options: dict[str, str]) -> str:
    if not line.startswith("# nThread"):
        return line
    low, high = limits_of(options)
    step = (
        f"{options['stepfactor']}(factor)"
        if "stepfactor" in options
        else f"{options.get('stepbytes', '1M')}(bytes)"
    )
    values = {
        "nThread": options.get("nthreads", "1"), "nGpus": options.get("ngpus", "1"), "minBytes": low, "maxBytes": high,
        "step:": step, "warmup iters:": options.get("warmup_iters", "1"), "agg iters:": options.get("agg_iters", "1"),
        "validation:": options.get("check", "1"),
    }  # fmt: skip
    for name, value in values.items():
        line = re.sub(rf"{name} \S+", f"{name} {value}", line, count=1)
    return re.sub(r"(?<!warmup )(?<!agg )iters: \S+", f"iters: {options.get('iters', '20')}", line)


def unchecked(row: list[str], options: dict[str, str]) -> list[str]:
    return [*row[:8], "N/A", *row[9:12], "N/A"] if options.get("check") == "0" else row


def row_of_size(rows: list[list[str]], size: int) -> list[str]:
    """The captured row, or one between its neighbours."""
    captured = next((row for row in rows if int(row[0]) == size), None)
    if captured is not None:
        return captured
    nearest = min(rows, key=lambda row: abs(int(row[0]) - size))
    row = [str(size), str(int(nearest[1]) * size // int(nearest[0])), *nearest[2:]]
    for first in (5, 9):
        points = [(int(other[0]), float(other[first])) for other in rows]
        set_time(row, first, interpolated(points, size), nearest)
    return row


def interpolated(points: list[tuple[int, float]], size: int) -> float:
    points = sorted(points)
    if len(points) == 1 or size <= points[0][0]:
        return points[0][1] * (max(1.0, size / points[0][0]))
    for (low, low_time), (high, high_time) in itertools.pairwise(points):
        if size <= high:
            return low_time + (high_time - low_time) * (size - low) / (high - low)
    return points[-1][1] * size / points[-1][0]


def set_time(row: list[str], first: int, time_us: float, model: list[str]) -> None:
    """Time, algbw and busbw of one placement; busbw / algbw as in `model`, a larger row being more exact."""
    factor = (
        round(float(model[first + 2]) / float(model[first + 1]) * 2) / 2 if float(model[first + 1]) else 1.0
    )
    algbw = int(row[0]) / time_us / 1e3
    row[first : first + 3] = [fit(time_us, 7), fit(algbw, 6), fit(algbw * factor, 6)]


def edited(row: list[str], number: int, script: dict) -> list[str]:
    row = list(row)
    if script["slowdown"] != 1.0:
        for first in (5, 9):
            set_time(row, first, float(row[first]) * script["slowdown"], row)
    if number == script["nan_in_row"]:
        row[7] = "nan"
    if number == script["wrong_in_row"]:
        row[8] = str(script["wrong_elements"])
    if number == script["false_size_in_row"]:
        row[0] = str(int(row[0]) * 3)
    return row


def fit(value: float, width: int) -> str:
    """As nccl-tests since 2.17.3: as many decimals, at most two, as the column has room for."""
    return next((text for digits in (2, 1, 0) if len(text := f"{value:.{digits}f}") <= width), f"{value:.1e}")


def render(row: list[str]) -> str:
    if len(row) == 1:
        return row[0]
    text = f"{row[0]:>12}  {row[1]:>12}  {row[2]:>8}  {row[3]:>6}  {row[4]:>6}"
    for time_us, algbw, busbw, wrong in (row[5:9], row[9:13]):
        text += f"  {time_us:>7}  {algbw:>6}  {busbw:>6}  {wrong:>{5 if wrong == 'N/A' else 6}}"
    return text


def with_average(line: str, rows: list[list[str]]) -> str:
    name, colon, _ = line.partition(": ")
    values = [float(row[place]) for row in rows for place in (7, 11)]
    if name.startswith("# Avg bus bandwidth"):
        return f"{name}{colon}{sum(values) / len(values):g} " if values else f"{name}{colon}-nan "
    wrong = sum(row[place] not in {"0", "N/A"} for row in rows for place in (8, 12))
    if name.startswith("# Out of bounds values"):
        return f"{name}{colon}{wrong} {'FAILED' if wrong else 'OK'}"
    return line


main()
