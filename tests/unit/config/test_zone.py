"""Names of time zones, and the zone of the host, on made-up hosts."""

from __future__ import annotations

import importlib.util
import zoneinfo

import pytest

from gpumond.config.zone import check_zone, local_zone, zone_name


@pytest.mark.parametrize("name", ["local", "UTC", "Europe/Berlin", "Australia/Lord_Howe", "Etc/GMT+5"])
def test_known(name):
    assert check_zone(name) == name


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Los Angeles", "America/Los_Angeles"),
        ("Asia/Tokio", "Asia/Tokyo"),
    ],
)
def test_suggestions(name, suggestion):
    with pytest.raises(ValueError, match=f'did you mean "{suggestion}"'):
        check_zone(name)


@pytest.mark.parametrize("name", ["", "Europe", "/etc/passwd", "../UTC", "a\0b", "x" * 5000, "Mars/Olympus"])
def test_unknown(name):
    with pytest.raises(ValueError, match="is no time zone"):
        check_zone(name)


@pytest.fixture
def no_database(tmp_path):
    """A host without tzdata, as slim container images are."""
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath()
    zoneinfo.ZoneInfo.clear_cache()


@pytest.mark.skipif(
    importlib.util.find_spec("tzdata") is not None, reason="the package tzdata is a database too"
)
@pytest.mark.usefixtures("no_database")
def test_a_host_without_a_database_says_so():
    with pytest.raises(ValueError, match="install tzdata"):
        check_zone("Europe/Berlin")


def test_local_zone_is_where_the_link_points(tmp_path):
    database = tmp_path / "zoneinfo" / "Europe"
    database.mkdir(parents=True)
    (database / "Berlin").touch()
    link = tmp_path / "localtime"
    link.symlink_to(database / "Berlin")
    assert local_zone(link, tmp_path / "missing") == "Europe/Berlin"


def test_a_copied_localtime_has_its_name_in_timezone(tmp_path):
    localtime, timezone = tmp_path / "localtime", tmp_path / "timezone"
    localtime.touch()
    timezone.write_text("Asia/Tokyo\n")
    assert local_zone(localtime, timezone) == "Asia/Tokyo"
    timezone.write_text("nonsense\n")
    assert local_zone(localtime, timezone) == "UTC"
    timezone.write_bytes(b"\xff\xfe")
    assert local_zone(localtime, timezone) == "UTC"


def test_a_host_without_both_is_utc(tmp_path):
    assert local_zone(tmp_path / "no", tmp_path / "nothing") == "UTC"


def test_zone_name():
    assert zone_name("Europe/Berlin") == "Europe/Berlin"
    assert check_zone(zone_name("local")) != "local"
