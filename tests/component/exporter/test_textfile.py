"""The metrics file for node_exporter, on a real file system: whole, readable, gone at the end."""

from __future__ import annotations

import os
import stat
import threading

import pytest
import status as fakes
from prometheus_client.parser import text_string_to_metric_families

from gpumond.board import StatusBoard
from gpumond.exporter.metrics import Exposition
from gpumond.exporter.negotiate import Format
from gpumond.exporter.textfile import TextFile


class Clock:
    def now(self):
        return fakes.NOW


@pytest.fixture
def board():
    return StatusBoard(fakes.eight_gpu_status())


@pytest.fixture
def textfile(tmp_path, board):
    path = tmp_path / "gpumond.prom"
    return TextFile(path, interval_seconds=15, board=board, exposition=Exposition(), clock=Clock())


def names_in(text):
    return {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}


def test_it_holds_what_metrics_shows_but_for_the_process(tmp_path, board, textfile):
    textfile.write()
    exposition = Exposition()
    shown = exposition.render_steady(board.status, Format.TEXT).text + exposition.render_scrape(
        board.status, Format.TEXT, at=fakes.NOW
    )
    expected = {name for name in names_in(shown.decode()) if name.startswith("gpumond_")}
    assert len(expected) > 50
    assert names_in((tmp_path / "gpumond.prom").read_text()) == expected


def test_everybody_may_read_it_whatever_the_umask_is(tmp_path, textfile):
    before = os.umask(0o077)
    try:
        textfile.write()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "gpumond.prom").stat().st_mode) == 0o644


def test_a_reader_never_sees_half_of_it(tmp_path, textfile):
    textfile.write()
    sizes, stop = set(), threading.Event()

    def read():
        while not stop.is_set():
            sizes.add(len((tmp_path / "gpumond.prom").read_bytes()))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(20):
        textfile.write()
    stop.set()
    reader.join()
    assert len(sizes) == 1


def test_nothing_else_lies_there_and_nothing_is_left(tmp_path, textfile):
    (tmp_path / ".gpumond.prom.new").write_text("of a daemon that died while it wrote")
    textfile.write()
    assert [path.name for path in tmp_path.iterdir()] == ["gpumond.prom"]
    textfile.remove()
    textfile.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path, textfile):
    (tmp_path / "secret").write_text("s")
    (tmp_path / ".gpumond.prom.new").symlink_to(tmp_path / "secret")
    (tmp_path / "gpumond.prom").symlink_to(tmp_path / "secret")
    textfile.write()
    assert (tmp_path / "secret").read_text() == "s"
    assert not (tmp_path / "gpumond.prom").is_symlink()


def test_a_missing_directory_is_said_once_and_its_return_too(tmp_path, board, capsys):
    directory = tmp_path / "later"
    textfile = TextFile(
        directory / "gpumond.prom", interval_seconds=15, board=board, exposition=Exposition(), clock=Clock()
    )
    textfile.write()
    textfile.write()
    directory.mkdir()
    textfile.write()
    said = capsys.readouterr()
    text = said.out + said.err
    assert text.count("textfile_failed") == 1
    assert text.count("textfile_recovered") == 1
    assert (directory / "gpumond.prom").exists()
