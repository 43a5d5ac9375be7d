"""`gpumond parse FILE`: what an output of nccl-tests or rccl-tests says.

Owns reading the file in bounded memory and showing the result. `--json` is the contract of ParsedOutput. The exit code
follows the text: 0 ok, 1 wrong or failed, 3 nothing that could be judged.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from gpumond import codec
from gpumond.cli.parse_text import lines_of
from gpumond.errors import ExitCode, UsageError
from gpumond.model.benchmark import ParsedOutput, TextOutcome
from gpumond.parsers.nccl_tests import MAX_INPUT_BYTES, Reader, decoder_for

HELP = "read the output of nccl-tests or rccl-tests"
_CHUNK_BYTES = 256 * 1024
_MAX_UNPRINTABLE_SHARE = 0.1  # a crashed host leaves holes of NUL bytes in good logs; a binary has far more
_TEXT_CONTROLS = frozenset(b"\t\n\r\x1b\x08\x0c")
_GZIP = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_MIB = 2**20
_HINTS: dict[type[Exception], str] = {
    FileNotFoundError: "Give the file that holds the benchmark's output, or - for standard input.",
    IsADirectoryError: "Give one file in it.",
    PermissionError: "Run as a user who may read it, or pipe it: sudo cat FILE | gpumond parse -",
}
_BINARY_HINT = "Give the text that the benchmark wrote to its standard output."
_LIMIT_HINT = "Cut out the part that holds the table, from its first line '# nThread' on."


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what the benchmark printed; - reads standard input")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def run(arguments: argparse.Namespace) -> int:
    name = "standard input" if arguments.file == "-" else arguments.file
    with open_log(arguments.file) as stream:
        parsed, is_empty = _read(stream, name)
    if arguments.json:
        print(codec.encode(parsed, indent=2).decode())
    elif is_empty:
        print(f"{name} is empty: there is nothing to judge")
    else:
        print("\n".join(lines_of(parsed)))
    return exit_code_of(parsed)


def exit_code_of(parsed: ParsedOutput) -> ExitCode:
    """A row that had to be rejected is data that could not be read: never healthy."""
    if parsed.outcome in (TextOutcome.FAILED, TextOutcome.WRONG_RESULTS):
        return ExitCode.UNHEALTHY
    if parsed.outcome is TextOutcome.TRUNCATED or not parsed.rows or parsed.rejected:
        return ExitCode.NOT_EVALUATED
    return ExitCode.HEALTHY


class _Source(Protocol):
    def read(self, size: int, /) -> bytes | None: ...


@contextlib.contextmanager
def open_log(path: str) -> Iterator[_Source]:
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        # Unbuffered: a pipe then hands over what it has, and nothing is copied twice.
        stream = Path(path).open("rb", buffering=0)  # noqa: SIM115 - closed below; only opening may fail here
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unreadable(path, error) from error
    with stream:
        yield stream


def _unreadable(path: str, error: OSError | ValueError) -> UsageError:
    reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
    hint = _HINTS.get(type(error), "Give a readable file, or - for standard input.")
    return UsageError(f"cannot read {path!r}: {reason}", hint=hint)


def _read(stream: _Source, name: str) -> tuple[ParsedOutput, bool]:
    """(what the stream says, whether it is empty). Raises UsageError where it is no text or has no end."""
    reader = Reader()
    head = read_chunk(stream, name)
    refuse_binary(head, name)
    decoder = decoder_for(head[:4])
    size, chunk, has_broken_text = 0, head, False
    while chunk:
        size += len(chunk)
        if size > MAX_INPUT_BYTES:
            raise UsageError(f"{name} is larger than {MAX_INPUT_BYTES // _MIB} MiB", hint=_LIMIT_HINT)
        text = decoder.decode(chunk)
        has_broken_text |= "\ufffd" in text
        reader.feed(text)
        chunk = read_chunk(stream, name)
    reader.feed(decoder.decode(b"", final=True))
    if has_broken_text:
        print(f"note: {name} is not all UTF-8; what cannot be read is taken as \ufffd", file=sys.stderr)
    return reader.finish(), not head


def read_chunk(stream: _Source, name: str) -> bytes:
    try:
        return stream.read(_CHUNK_BYTES) or b""
    except OSError as error:
        raise _unreadable(name, error) from error


def refuse_binary(head: bytes, name: str) -> None:
    if head.startswith(_GZIP):
        raise UsageError(f"{name} is compressed", hint="Unpack it first: zcat FILE | gpumond parse -")
    if head.startswith(_UTF16):
        return
    controls = sum(byte < 0x20 and byte not in _TEXT_CONTROLS for byte in head)  # noqa: PLR2004 - ASCII's controls
    if controls > len(head) * _MAX_UNPRINTABLE_SHARE:
        raise UsageError(f"{name} is binary, not the text that a benchmark printed", hint=_BINARY_HINT)
