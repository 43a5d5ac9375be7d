"""The metrics as a file for node_exporter's textfile collector: for hosts that may open no port.

Owns the file: it is replaced as a whole (rename), readable by everybody, and gone after an orderly end, so that a
stopped daemon leaves no old values behind. Refuses to know what is in it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gpumond.board import StatusBoard
from gpumond.clock import Clock
from gpumond.exporter.metrics import Exposition
from gpumond.log import get_logger

FILE_MODE = 0o644
"""The unit's umask keeps others out of what gpumond writes; node_exporter is one of them."""

log = get_logger("textfile")


class TextFile:
    """`write` never raises for the file's sake: a directory that is missing is said once, until it works again."""

    def __init__(
        self, path: Path, *, interval_seconds: float, board: StatusBoard, exposition: Exposition, clock: Clock
    ) -> None:
        self.interval_seconds = interval_seconds
        self._path = path
        # Of another ending than .prom, or node_exporter would read it half written.
        self._new = path.with_name(f".{path.name}.new")
        self._board = board
        self._exposition = exposition
        self._clock = clock
        self._is_failing = False

    def write(self) -> None:
        try:
            self._replace(self._exposition.render_file(self._board.status, at=self._clock.now()))
        except OSError as error:
            if not self._is_failing:
                log.error("textfile_failed", file=str(self._path), error=error.strerror)  # noqa: TRY400 - a sentence
            self._is_failing = True
            return
        if self._is_failing:
            log.info("textfile_recovered", file=str(self._path))
        self._is_failing = False

    def remove(self) -> None:
        for path in (self._path, self._new):
            with contextlib.suppress(OSError):
                path.unlink()

    def _replace(self, text: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._new.unlink()  # of a daemon that died while it wrote
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._new, flags, FILE_MODE)
        with os.fdopen(fd, "wb") as stream:
            os.fchmod(fd, FILE_MODE)  # whatever the umask is
            stream.write(text)
        self._new.rename(self._path)
