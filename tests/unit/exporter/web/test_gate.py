"""Who is local, and what an Authorization header says."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from gpumond.exporter.web.gate import basic_credentials, is_local, is_loopback


def request(client="127.0.0.1", **headers):
    headers = {"host": "127.0.0.1:10061"} | headers
    return Request(
        {
            "type": "http",
            "method": "GET",
            "path": "/",
            "query_string": b"",
            "scheme": "http",
            "client": client and (client, 1),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        }
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_loopback(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "localhost", "fe80::1%eth0"]
)
def test_not_loopback(host):
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["localhost", "localhost:10061", "127.0.0.1", "[::1]:10061"])
def test_a_program_on_this_host(host):
    assert is_local(request(host=host))


@pytest.mark.parametrize(
    "stranger",
    [
        request(client="10.0.0.1"),
        request(client=None),
        request(host="evil.example"),  # DNS rebinding
        request(host="localhost.evil.example"),
        request(x_forwarded_for="10.0.0.1"),  # a proxy on this host, for somebody
        request(forwarded="for=10.0.0.1"),
        request(via="1.1 proxy"),
    ],
)
def test_strangers(stranger):
    assert not is_local(stranger)


@given(st.text(st.characters(exclude_characters=":", codec="utf-8")), st.binary())
def test_credentials_come_back(name, password):
    encoded = base64.b64encode(name.encode() + b":" + password).decode()
    assert basic_credentials(f"Basic {encoded}") == (name, password)


@given(st.text())
def test_no_header_raises(text):
    basic_credentials(text)
    basic_credentials(f"Basic {text}")
