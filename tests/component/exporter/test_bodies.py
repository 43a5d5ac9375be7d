"""The thread that renders ahead: what it saves, and what happens when it cannot."""

from __future__ import annotations

import gzip
import threading
from dataclasses import replace

import pytest
import status as fakes
from structlog.testing import capture_logs

from gpumond.board import StatusBoard
from gpumond.exporter.bodies import Bodies
from gpumond.exporter.metrics import Exposition
from gpumond.exporter.negotiate import Format


class CountingExposition(Exposition):
    """Counts, and fails on request as a broken library would."""

    def __init__(self):
        super().__init__()
        self.renderings = 0
        self.is_broken = False

    def render_steady(self, status, form):
        self.renderings += 1
        if self.is_broken:
            raise ValueError("cannot encode")
        return super().render_steady(status, form)


@pytest.fixture
def board():
    return StatusBoard(fakes.two_gpu_status())


@pytest.fixture
def exposition():
    return CountingExposition()


@pytest.fixture
def bodies(board, exposition):
    bodies = Bodies(board, exposition, linger_seconds=0.01)
    bodies.start()
    yield bodies
    bodies.stop()


def text_of(bodies, form=Format.TEXT):
    return bodies.get(form).finish(b"").decode()


def test_one_rendering_serves_many_scrapes(bodies, exposition):
    first = bodies.get(Format.TEXT)
    assert all(bodies.get(Format.TEXT) is first for _ in range(50))
    assert exposition.renderings == 1


def test_a_heartbeat_costs_no_rendering(bodies, board, exposition):
    first = bodies.get(Format.TEXT)
    for second in range(10):
        board.update(
            lambda status, second=second: replace(status, heartbeat_at=fakes.NOW.replace(second=second))
        )
        assert bodies.get(Format.TEXT) is first
    assert exposition.renderings == 1


def test_a_format_is_rendered_from_the_first_wish_on(bodies, board, exposition):
    bodies.get(Format.TEXT)
    assert exposition.renderings == 1
    assert bodies.get(Format.OPENMETRICS) is not bodies.get(Format.TEXT)
    assert exposition.renderings == 2
    board.update(lambda status: replace(status, is_config_current=False))
    assert "gpumond_config_last_reload_successful 0.0" in text_of(bodies, Format.OPENMETRICS)


def test_a_storm_of_changes_is_gathered(board, exposition):
    bodies = Bodies(board, exposition, linger_seconds=30)
    bodies.start()
    try:
        bodies.get(Format.TEXT)
        for number in range(500):
            board.update(lambda status, number=number: replace(status, simulated=str(number)))
        assert "gpumond_simulated 1.0" in text_of(bodies)  # and who asks does not wait for the linger
        assert exposition.renderings == 2
    finally:
        bodies.stop()


def test_what_was_on_the_board_is_in_the_body(bodies, board):
    """Each reader sees the newest value that it wrote itself, with writers all around."""
    failures = []

    def write_and_read(offset):
        for step in range(20):
            mine = fakes.sweep(f"sweep-{offset}-{step}")
            board.update(lambda status, mine=mine: replace(status, sweeps=(*status.sweeps, mine)))
            if f'sweep="sweep-{offset}-{step}"' not in text_of(bodies):
                failures.append((offset, step))

    threads = [threading.Thread(target=write_and_read, args=(offset,)) for offset in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_rendering_that_fails_is_a_failed_scrape_and_not_an_old_one(bodies, board, exposition):
    text_of(bodies)
    exposition.is_broken = True
    with capture_logs() as events:
        board.update(lambda status: replace(status, is_config_current=False))
        with pytest.raises(ValueError, match="cannot encode"):
            bodies.get(Format.TEXT)
        bodies.stop()
    assert [event["event"] for event in events] == ["exposition_failed"]


def test_a_rendering_that_failed_is_made_up_for(bodies, board, exposition):
    exposition.is_broken = True
    with capture_logs():
        with pytest.raises(ValueError, match="cannot encode"):
            bodies.get(Format.TEXT)
        exposition.is_broken = False
        board.update(lambda status: replace(status, simulated="again"))
        assert "gpumond_simulated 1.0" in text_of(bodies)


def test_a_body_after_the_end(board, exposition):
    bodies = Bodies(board, exposition)
    bodies.start()
    bodies.stop()
    assert "gpumond_gpus 2.0" in text_of(bodies)


def test_text_and_gzip_take_the_same_tail(bodies):
    body = bodies.get(Format.TEXT)
    for tail in (b"", b"gpumond_time_seconds 1\n", b"gpumond_time_seconds 2\n"):
        assert gzip.decompress(body.finish_gzip(tail)) == body.finish(tail)
