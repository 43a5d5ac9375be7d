"""TLS, client certificates and passwords over real sockets, and what a reload changes of them."""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import threading
import time
from pathlib import Path

import bcrypt
import pytest
import status as fakes
import web_access
from structlog.testing import capture_logs

from gpumond.board import StatusBoard
from gpumond.clock import SystemClock
from gpumond.exporter.http import HttpServer
from gpumond.exporter.web.access import RateLimit, WebAccess
from gpumond.exporter.web.passwords import WAITING_OF_ONE_CLIENT_MAX

USERS = {"prometheus": web_access.HASHED.encode()}
CUT_SECONDS_MAX = 5.0


def basic(name="prometheus", password=web_access.PASSWORD):
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def subject(served):
    """Whose certificate a new connection gets."""
    with tls_connection(served) as secured:
        return secured.getpeercert()["subject"][0][0][1]


def tls_connection(served):
    plain = socket.create_connection(("127.0.0.1", served.port), timeout=CUT_SECONDS_MAX)
    return served.client.wrap_socket(plain, server_hostname="localhost")


class TestTls:
    def test_a_scrape(self, serve, tmp_path):
        served = serve(access=web_access.load(tmp_path))
        answer = served.ask(Accept_Encoding="gzip")
        assert (answer.code, answer.headers["Content-Encoding"]) == (200, "gzip")

    def test_keep_alive(self, serve, tmp_path, keep_alive):
        connection = serve(access=web_access.load(tmp_path)).connect()
        assert [keep_alive(connection).code for _ in range(5)] == [200] * 5
        connection.close()

    def test_a_request_that_comes_with_the_end_of_the_handshake(self, serve, tmp_path):
        """Both in one write: asyncio delivers the request before the handshake is reported."""
        served = serve(access=web_access.load(tmp_path))
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = served.client.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", served.port), timeout=5) as sock:
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    sock.sendall(outgoing.read())
                    incoming.write(sock.recv(65536))
            client.write(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            sock.sendall(outgoing.read())
            incoming.write(sock.recv(65536))
            while True:
                try:
                    assert b"200 OK" in client.read(65536)
                    break
                except ssl.SSLWantReadError:
                    incoming.write(sock.recv(65536))

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_least_version(self, serve, tmp_path, version):
        served = serve(access=web_access.load(tmp_path, more="min_version: TLS13"))
        served.client.maximum_version = version
        if version is ssl.TLSVersion.TLSv1_3:
            assert served.ask().code == 200
        else:
            with pytest.raises(ssl.SSLError):
                served.ask()

    def test_plain_text_is_cut(self, serve, tmp_path):
        served = serve(access=web_access.load(tmp_path))
        with socket.create_connection(("127.0.0.1", served.port), timeout=CUT_SECONDS_MAX) as sock:
            sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"gpumond_" not in read_to_end(sock)


class TestClientCertificates:
    def test_only_those_of_the_authority_get_in(self, serve, tmp_path):
        served = serve(access=web_access.with_clients(tmp_path))
        for certificate, is_in in (("client", True), ("stranger", False), ("", False)):
            served.client = web_access.client(certificate)
            assert gets_in(served) == is_in, certificate

    @pytest.mark.parametrize("san", ["prometheus.example", '"fd00::1"', '"spiffe://example/prometheus"'])
    def test_a_name_that_is_allowed(self, serve, tmp_path, san):
        served = serve(access=web_access.with_clients(tmp_path, sans=f"other.example, {san}"))
        served.client = web_access.client("client")
        assert gets_in(served)

    def test_a_name_that_is_not(self, serve, tmp_path):
        served = serve(access=web_access.with_clients(tmp_path, sans="example, prometheus.example.org"))
        served.client = web_access.client("client")
        assert not gets_in(served)

    def test_if_given(self, serve, tmp_path):
        more = (
            f"client_auth_type: VerifyClientCertIfGiven\nclient_ca_file: {web_access.CERTIFICATES / 'ca.pem'}"
        )
        served = serve(access=web_access.load(tmp_path, more=more))
        for certificate, is_in in (("client", True), ("stranger", False), ("", True)):
            served.client = web_access.client(certificate)
            assert gets_in(served) == is_in, certificate


def gets_in(served):
    try:
        return served.ask().code == 200
    except (ssl.SSLError, ConnectionError):  # RemoteDisconnected is one
        return False


@pytest.fixture(scope="module")
def locked(serve_all):
    """A server that wants a password and that no test changes."""
    return serve_all(access=WebAccess(users=USERS))


class TestPasswords:
    def test_the_right_one(self, locked):
        assert locked.ask(Authorization=basic()).code == 200
        assert locked.ask(Authorization=basic().replace("Basic", "bAsIc")).code == 200

    @pytest.mark.parametrize(
        "header",
        [
            None,
            "",
            "Basic",
            "Basic !!!",
            "Bearer x",
            basic(password="wrong"),
            basic(name="nobody"),
            basic(name=""),
            basic(password=""),
            basic(password="x" * 1000),
            basic(password="a\0b"),
            "Basic " + base64.b64encode(b"prometheus").decode(),
            "Basic " + base64.b64encode(b"\xff:x").decode(),
        ],
        ids=lambda header: str(header)[:20],
    )
    @pytest.mark.parametrize("path", ["/metrics", "/", "/api/v1/status", "/static/style.css", "/nothing"])
    def test_everything_else_is_refused(self, locked, path, header):
        answer = locked.ask(path, **({} if header is None else {"Authorization": header}))
        assert answer.code == 401
        assert answer.headers["WWW-Authenticate"].startswith("Basic ")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert b"gpumond_" not in answer.body
        if path.startswith("/api/"):
            assert json.loads(answer.body)["error"] == "user and password are needed"

    @pytest.mark.parametrize("path", ["/-/healthy", "/-/ready"])
    def test_signs_of_life_need_none(self, locked, path):
        assert locked.ask(path).code == 200

    def test_the_right_one_is_checked_once(self, serve, monkeypatch):
        served = serve(access=WebAccess(users=USERS))
        checked = []
        spy_on_checks(monkeypatch, checked)
        for _ in range(3):
            assert served.ask(Authorization=basic()).code == 200
        for _ in range(3):
            assert served.ask(Authorization=basic(password="wrong")).code == 401
        assert checked == [web_access.PASSWORD.encode(), *[b"wrong"] * 3]

    def test_guesses_keep_no_scrape_waiting(self, serve, monkeypatch):
        served = serve(access=WebAccess(users=USERS))
        assert served.ask(Authorization=basic()).code == 200  # remembered
        go_on = threading.Event()
        spy_on_checks(monkeypatch, [], before=lambda: go_on.wait(20))
        codes = []
        guesses = [
            threading.Thread(
                target=lambda: codes.append(served.ask(Authorization=basic(password="guess")).code)
            )
            for _ in range(3 * WAITING_OF_ONE_CLIENT_MAX)
        ]
        for guess in guesses:
            guess.start()
        try:
            wait_until(lambda: len(codes) == 2 * WAITING_OF_ONE_CLIENT_MAX)
            for _ in range(5):
                assert served.ask(Authorization=basic()).code == 200
        finally:
            go_on.set()
            for guess in guesses:
                guess.join()
        assert sorted(codes) == [401] * WAITING_OF_ONE_CLIENT_MAX + [503] * 2 * WAITING_OF_ONE_CLIENT_MAX


def spy_on_checks(monkeypatch, checked, before=lambda: None):
    """Let bcrypt say what it was asked."""
    real = bcrypt.checkpw

    def check(password, hashed):
        before()
        checked.append(password)
        return real(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", check)


def wait_until(condition):
    give_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


class TestHeadersAndRate:
    def test_headers_of_the_file_come_before_ours(self, serve):
        served = serve(access=WebAccess(headers={"Strict-Transport-Security": "max-age=60"}))
        answer = served.ask("/nothing")
        assert answer.headers["Strict-Transport-Security"] == "max-age=60"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"

    def test_rate(self, serve):
        served = serve(access=WebAccess(rate_limit=RateLimit(interval_seconds=1.0, burst=2)))
        assert [served.ask("/-/healthy").code for _ in range(3)] == [200, 200, 429]
        served.clock.sleep(1)
        assert [served.ask("/-/healthy").code for _ in range(2)] == [200, 429]


class TestReload:
    def test_a_renewed_certificate(self, serve, tmp_path):
        served = serve(access=web_access.load(tmp_path))
        assert subject(served) == "server"
        served.server.configure(web_access.load(tmp_path, certificate="renewed"))
        assert subject(served) == "renewed"

    def test_whoever_is_connected_comes_again(self, serve, tmp_path, keep_alive):
        """Else a scraper whose certificate is trusted no longer would stay for ever."""
        served = serve(access=web_access.load(tmp_path))
        connection = served.connect()
        keep_alive(connection)
        sock = connection.sock
        served.server.configure(web_access.with_clients(tmp_path))
        sock.settimeout(CUT_SECONDS_MAX)
        assert sock.recv(1) == b""
        connection.close()
        assert not gets_in(served)

    def test_a_changed_password(self, serve):
        served = serve(access=WebAccess(users=USERS))
        assert served.ask(Authorization=basic()).code == 200
        served.server.configure(WebAccess(users={"other": USERS["prometheus"]}))
        assert served.ask(Authorization=basic()).code == 401
        assert served.ask(Authorization=basic("other")).code == 200

    def test_a_server_that_does_not_listen_takes_it_too(self, tmp_path):
        server = HttpServer(
            host="",
            port=0,
            board=StatusBoard(fakes.two_gpu_status()),
            clock=SystemClock(),
            open_history=lambda: pytest.fail("nobody asks"),
            access=web_access.load(tmp_path),
        )
        server.configure(WebAccess())
        server.stop()

    def test_tls_comes_and_goes(self, serve, tmp_path):
        served = serve()
        assert served.ask().code == 200
        served.server.configure(web_access.load(tmp_path))
        plain, served.client = served.client, web_access.client()
        assert served.ask().code == 200
        served.server.configure(WebAccess())
        served.client = plain
        assert served.ask().code == 200


class TestWarning:
    @pytest.mark.parametrize(
        ("host", "users", "problems"),
        [
            ("", {}, ["whoever reaches the port reads everything but runs' environments"]),
            ("", USERS, ["passwords cross the network in plain text"]),
            ("127.0.0.1", {}, []),
        ],
    )
    def test_where_somebody_else_can_listen(self, serve, host, users, problems):
        assert warnings_of(lambda: serve(host=host, access=WebAccess(users=users))) == problems

    def test_not_with_tls_and_again_when_that_goes(self, serve, tmp_path):
        started = []
        assert not warnings_of(lambda: started.append(serve(host="", access=web_access.load(tmp_path))))
        assert len(warnings_of(lambda: started[0].server.configure(WebAccess()))) == 1
        assert not warnings_of(lambda: started[0].server.configure(WebAccess()))


def warnings_of(do):
    with capture_logs() as logs:
        do()
    return [entry["problem"] for entry in logs if entry["event"] == "http_without_tls"]


class TestBadClientsBeforeTheHandshake:
    """The table of reference 1.4: one silent connection must not stop a scrape, nor may 900 cost memory for ever."""

    @pytest.fixture
    def served(self, serve, tmp_path):
        return serve(access=web_access.load(tmp_path), handshake_seconds=0.5, head_seconds=0.5, handshakes=16)

    @pytest.mark.parametrize("data", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"], ids=repr)
    def test_one_silent_connection(self, served, data):
        with socket.create_connection(("127.0.0.1", served.port), timeout=CUT_SECONDS_MAX) as sock:
            sock.sendall(data)
            for _ in range(5):
                assert served.ask().code == 200
            read_to_end(sock)

    def test_900_silent_connections(self, served):
        before = rss_mib()
        sockets = [
            socket.create_connection(("127.0.0.1", served.port), timeout=CUT_SECONDS_MAX) for _ in range(900)
        ]
        try:
            for _ in range(20):
                assert served.ask().code == 200
            assert rss_mib() - before < 60  # 16 x 256 KiB of buffers, and what 900 sockets of the client cost
            for sock in sockets:
                read_to_end(sock)
        finally:
            for sock in sockets:
                sock.close()

    def test_silence_after_the_handshake(self, served):
        with tls_connection(served) as sock:
            assert served.ask().code == 200
            assert read_to_end(sock) == b""

    def test_stop_does_not_wait_for_one_that_ignores_the_end_of_its_tls(self, serve, tmp_path, caplog):
        served = serve(access=web_access.load(tmp_path))
        with tls_connection(served):
            began = time.monotonic()
            served.server.stop()
            assert time.monotonic() - began < 3
        assert not caplog.records

    def test_stop_does_not_wait_for_them(self, serve, tmp_path):
        served = serve(access=web_access.load(tmp_path))
        with socket.create_connection(("127.0.0.1", served.port)):
            time.sleep(0.05)
            began = time.monotonic()
            served.server.stop()
            assert time.monotonic() - began < 3


def read_to_end(sock):
    """What comes until the server closes or cuts; fails with TimeoutError if it does neither."""
    data = b""
    try:
        while chunk := sock.recv(65536):
            data += chunk
    except (ConnectionError, ssl.SSLEOFError):
        pass
    return data


def rss_mib():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
