"""What is kept of a child's output, however much it prints, and its lines as they become complete. Pure.

Invariants: memory is bounded by the limits alone; what was left out is counted and said in the output itself, between
whole lines, so that a parser never reads half a number as a number. (Only a line longer than all that is kept is shown
in part.)
"""

from __future__ import annotations

LINE_BYTES_MAX = 64 * 1024
"""Of a longer line only this much is handed on. A row of nccl-tests has 120 bytes, with statistics 250."""


class BoundedOutput:
    """The first `head_bytes` and the last `tail_bytes` of a stream."""

    def __init__(self, *, head_bytes: int, tail_bytes: int) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._total_bytes = 0

    @property
    def total_bytes(self) -> int:
        """Everything that came, kept or not."""
        return self._total_bytes

    def append(self, chunk: bytes) -> None:
        self._total_bytes += len(chunk)
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail += chunk
            # Trimmed only when it has doubled: a flood costs one copy a tail, not one a chunk.
            if len(self._tail) > 2 * self._tail_bytes:
                del self._tail[: len(self._tail) - self._tail_bytes]

    def finish(self) -> tuple[bytes, int]:
        """What is kept, and how many bytes are not; a marker line stands where they were."""
        tail = bytes(self._tail[max(0, len(self._tail) - self._tail_bytes) :])
        missing = self._total_bytes - len(self._head) - len(tail)
        if missing == 0:
            return bytes(self._head) + tail, 0
        head = _up_to_last_newline(bytes(self._head))
        tail = _after_first_newline(tail)
        dropped = self._total_bytes - len(head) - len(tail)
        start = b"" if not head or head.endswith(b"\n") else b"\n"
        return head + start + b"# gpumond: %d bytes left out here\n" % dropped + tail, dropped


def _up_to_last_newline(text: bytes) -> bytes:
    """Without the line that was cut; a text that is one single line stays as it is."""
    end = text.rfind(b"\n")
    return text[: end + 1] if end >= 0 else text


def _after_first_newline(text: bytes) -> bytes:
    start = text.find(b"\n")
    return text[start + 1 :] if start >= 0 else text


class LineSplitter:
    """Complete lines out of chunks, decoded, without their line ends. What has no newline yet is never handed out."""

    def __init__(self, *, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._line_bytes_max = line_bytes_max
        self._partial = bytearray()

    def feed(self, chunk: bytes) -> list[str]:
        *complete, rest = chunk.split(b"\n")
        if complete:
            self._extend(complete[0])
            complete[0] = bytes(self._partial)
            self._partial.clear()
        self._extend(rest)
        return [self._decode(line) for line in complete]

    def _extend(self, piece: bytes) -> None:
        room = self._line_bytes_max - len(self._partial)
        if room > 0:
            self._partial += piece[:room]

    def _decode(self, line: bytes) -> str:
        return line[: self._line_bytes_max].decode("utf-8", errors="replace").removesuffix("\r")
