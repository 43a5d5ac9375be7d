"""Files that are none, or not what they seem: one clear problem each, and never a wait."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpumond.config.load import LARGEST_FILE_BYTES, load
from gpumond.errors import ConfigError


def problem_of(path):
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert len(caught.value.problems) == 1
    assert caught.value.hint
    return caught.value.problems[0]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "config.toml"


def test_a_file(file):
    file.write_text('[snapshot]\ninterval = "2m"\n')
    assert load(file).snapshot.interval == 120.0


def test_missing(file):
    problem = problem_of(file)
    assert str(problem) == f"{file}: no such file"


def test_empty(file):
    file.touch()
    assert load(file).sweeps == ()


def test_directory(tmp_path):
    assert problem_of(tmp_path).message == "is a directory, not a file"


@pytest.mark.timeout(10)
def test_fifo_without_a_writer(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert problem_of(fifo).message == "is a pipe or a device, not a file"


@pytest.mark.timeout(10)
def test_a_device_without_an_end():
    assert problem_of(Path("/dev/zero")).message == "is a pipe or a device, not a file"


def test_below_a_file(file):
    file.touch()
    assert "cannot be read: not a directory" in problem_of(file / "config.toml").message


def test_a_file_that_fails_when_it_is_read():
    assert "cannot be read: input/output error" in problem_of(Path("/proc/self/mem")).message


def test_a_link_to_itself(file):
    file.symlink_to(file)
    assert "cannot be read: too many levels of symbolic links" in problem_of(file).message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_without_permission(file):
    file.touch(mode=0o000)
    assert "cannot be read: permission denied" in problem_of(file).message


def test_a_name_that_no_file_can_have():
    assert "cannot be read" in problem_of(Path("a\0b")).message
    assert "cannot be read: file name too long" in problem_of(Path("x" * 5000)).message


def test_too_large(file):
    with file.open("wb") as stream:
        stream.truncate(LARGEST_FILE_BYTES + 1)
    assert problem_of(file).message == "is larger than 1 MiB"


def test_binary(file):
    file.write_bytes(b"\x7fELF\x02\x01\x01\x00")
    assert problem_of(file).message == "is binary: byte 7 is NUL"


def test_latin_1(file):
    file.write_bytes('[log]\n# caf\u00e9\nlevel = "info"\n'.encode("latin-1"))
    problem = problem_of(file)
    assert (problem.line, problem.message) == (2, "is not UTF-8: byte 0xe9 at offset 11")


def test_utf_16(file):
    file.write_text("[log]\n", encoding="utf-16")
    assert "is binary" in problem_of(file).message


def test_a_byte_order_mark_is_no_mistake(file):
    file.write_text('[log]\nlevel = "debug"\n', encoding="utf-8-sig")
    assert load(file).log.level == "debug"


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_is_left_open(file, tmp_path):
    file.write_text("x = 1")
    before = open_descriptors()
    for path in (file, tmp_path, Path("/dev/zero"), tmp_path / "missing"):
        with pytest.raises(ConfigError):
            load(path)
    assert open_descriptors() == before
