"""What somebody sent: a pasted matrix, or a snapshot that another gpumond printed. Reads it within bounds.

Owns files and encodings; what a text means is the parsers' to say.
"""

from __future__ import annotations

import codecs
import json
import sys
from pathlib import Path
from typing import BinaryIO, Final

from gpumond.errors import UsageError
from gpumond.model.topology import Snapshot
from gpumond.probe.launcher import decode_snapshot

LARGEST_FILE_BYTES: Final = 16 << 20
"""A matrix of 64 GPUs is 30 kB, a support log that holds one a few MB."""

STANDARD_INPUT: Final = "-"

TEXT_HINT: Final = "Give it what `nvidia-smi topo -m`, `amd-smi topology` or `rocm-smi --showtopo` printed."
_SNAPSHOT_HINT: Final = (
    "A snapshot is what `gpumond topology --json` prints; one of a newer gpumond needs that gpumond."
)


def read_text(path: str) -> str:
    """The text of a file or of standard input. Raises UsageError where there is none."""
    try:
        content = _read_bytes(path)
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}", hint=TEXT_HINT) from error
    except ValueError as error:  # a NUL in the name
        raise UsageError(f"{path!r}: {error}", hint=TEXT_HINT) from error
    if len(content) > LARGEST_FILE_BYTES:
        raise UsageError(
            f"{path}: more than {LARGEST_FILE_BYTES >> 20} MiB", hint="Cut out the part with the matrix."
        )
    return _decode(content, path)


def snapshot_in(text: str, path: str) -> Snapshot | None:
    """The snapshot that `text` holds, bare or as `gpumond topology --json` prints it; None where it is something else.

    Raises UsageError for a snapshot that does not fit, or that a newer gpumond wrote.
    """
    document = _snapshot_document(text)
    if document is None:
        return None
    try:
        return decode_snapshot(json.dumps(document).encode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: this snapshot cannot be used: {error}", hint=_SNAPSHOT_HINT) from error


def _snapshot_document(text: str) -> dict[str, object] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    inner = document.get("snapshot", document)
    is_ours = isinstance(inner, dict) and {"schema", "taken_at", "pairs"} <= inner.keys()
    return inner if is_ours else None


def _read_bytes(path: str) -> bytes:
    """At most one byte more than allowed, so that an endless file ends."""
    if path == STANDARD_INPUT:
        return _read_bounded(sys.stdin.buffer)
    with Path(path).open("rb") as file:
        return _read_bounded(file)


def _read_bounded(file: BinaryIO) -> bytes:
    return file.read(LARGEST_FILE_BYTES + 1)


def _decode(content: bytes, path: str) -> str:
    """UTF-8 with bad bytes replaced, or the UTF-16 that PowerShell writes. Raises UsageError for what is no text."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", errors="replace")
    if b"\0" in content:
        raise UsageError(f"{path}: a binary file", hint=TEXT_HINT)
    return content.decode("utf-8", errors="replace")
