"""The rendered text of the current status, kept ready: rendered once a change in a thread of its own, not once a scrape.

Rendering 2,500 series takes about 20 ms and compressing them 3 ms; a scrape adds only its own few lines to what is kept
here. Invariants: a scrape never sees a status older than the one that was on the board when it asked, unless rendering
takes longer than RENDER_WAIT_SECONDS; and a storm of changes costs a bounded share of a core.
"""

from __future__ import annotations

import threading
import zlib

from gpumond.board import StatusBoard
from gpumond.exporter.family import steady
from gpumond.exporter.metrics import Exposition, Rendered
from gpumond.exporter.negotiate import Format
from gpumond.log import get_logger
from gpumond.model.status import HostStatus

LINGER_SECONDS = 0.25
"""How long changes are gathered while nobody waits: at most four renderings a second, also while rows arrive live."""

RENDER_WAIT_SECONDS = 2.0
"""A scrape that has waited this long for the newest text takes the last one."""

_NO_VERSION = -1
_GZIP_LEVEL = 1  # level 9 takes six times as long and saves 20 %
_GZIP_WINDOW_BITS = 31  # 15 for the window, 16 for gzip's own head and check sum


class Body:
    """The steady part of an exposition, to which a scrape appends its own lines."""

    def __init__(self, rendered: Rendered) -> None:
        self.is_complete = rendered.is_complete
        self._text = rendered.text
        self._compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW_BITS)
        self._compressed = self._compressor.compress(rendered.text)

    def finish(self, tail: bytes) -> bytes:
        return self._text + tail

    def finish_gzip(self, tail: bytes) -> bytes:
        """One gzip member: the state of the compressor after the steady part is copied, not its work repeated."""
        compressor = self._compressor.copy()
        return self._compressed + compressor.compress(tail) + compressor.flush()


class Bodies:
    """The newest Body of each format that somebody has asked for."""

    def __init__(
        self, board: StatusBoard, exposition: Exposition, *, linger_seconds: float = LINGER_SECONDS
    ) -> None:
        self._board = board
        self._exposition = exposition
        self._linger_seconds = linger_seconds
        self._log = get_logger("exporter")
        self._changed = threading.Condition()
        self._is_stopping = False
        self._wanted: frozenset[Format] = frozenset()  # nobody pays for a format that nobody asks for
        self._waiting = dict.fromkeys(Format, 0)
        self._versions = dict.fromkeys(Format, _NO_VERSION)  # of the status that the body of a format shows
        self._bodies: dict[Format, Body | None] = dict.fromkeys(Format)
        self._view: HostStatus | None = None  # what the bodies were rendered from
        self._thread = threading.Thread(target=self._run, name="exporter-render", daemon=True)

    def start(self) -> None:
        self._board.subscribe(self._notify)
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def get(self, form: Format) -> Body:
        """The body of the status that is on the board now, or of a newer one."""
        needed, _ = self._board.versioned
        with self._changed:
            self._wanted |= {form}
            if not self._is_ready(form, needed):
                self._wait(form, needed)
            body = self._bodies[form]
        return body or Body(self._exposition.render_steady(self._board.status, form))

    def _wait(self, form: Format, needed: int) -> None:
        self._waiting[form] += 1
        self._changed.notify_all()
        try:
            self._changed.wait_for(
                lambda: self._is_stopping or self._is_ready(form, needed), RENDER_WAIT_SECONDS
            )
        finally:
            self._waiting[form] -= 1

    def _is_ready(self, form: Format, needed: int) -> bool:
        return self._versions[form] >= needed

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        while self._wait_for_work():
            self._render()

    def _wait_for_work(self) -> bool:
        """True when there is something to render, False to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or self._is_behind())
            self._changed.wait_for(
                lambda: self._is_stopping or any(self._waiting.values()), self._linger_seconds
            )
            return not self._is_stopping

    def _is_behind(self) -> bool:
        newest, _ = self._board.versioned
        return any(self._versions[form] != newest for form in self._wanted)

    def _render(self) -> None:
        """Bring every wanted format up to date, first those that a scrape waits for."""
        version, status = self._board.versioned
        view = steady(status)
        is_same = view == self._view  # a heartbeat changes the status and nothing that is rendered here
        for form in sorted(self._wanted, key=lambda form: -self._waiting[form]):
            body = self._bodies[form] if is_same else None
            self._publish(form, version, body or self._make(view, form))
        self._view = view

    def _make(self, view: HostStatus, form: Format) -> Body | None:
        try:
            return Body(self._exposition.render_steady(view, form))
        except Exception as error:  # noqa: BLE001 - the thread must live on, whatever the library raises
            # Without a body every scrape renders for itself, and fails where it can be seen: `up` becomes 0.
            self._log.error("exposition_failed", format=form.name, error=repr(error))
            return None

    def _publish(self, form: Format, version: int, body: Body | None) -> None:
        with self._changed:
            self._versions[form], self._bodies[form] = version, body
            self._changed.notify_all()
