"""What of a web configuration file is taken, and the sentence for what is not."""

from __future__ import annotations

import contextlib
import os
import shutil
import ssl
import tempfile
from pathlib import Path

import pytest
import web_access
from web_access import AT, CERTIFICATES

from gpumond.errors import ConfigError, ExitCode
from gpumond.exporter.web.access import RateLimit
from gpumond.exporter.web.web_file import load_web_file

TLS = f"tls_server_config:\n  cert_file: {CERTIFICATES}/server.pem\n  key_file: {CERTIFICATES}/server.key\n"
HASHED = web_access.HASHED
CA = f"  client_ca_file: {CERTIFICATES}/ca.pem\n"
VERIFY = "  client_auth_type: RequireAndVerifyClientCert\n"


@pytest.fixture
def load(tmp_path):
    """`load(text)` -> the access, relative paths beside the file."""

    def from_text(text):
        path = tmp_path / "web.yml"
        path.write_text(text)
        return load_web_file(path, now=AT)

    return from_text


@pytest.fixture
def complaints(load):
    """`complaints(text)` -> what is said, without the directory."""

    def of(text):
        with pytest.raises(ConfigError) as caught:
            load(text)
        assert caught.value.exit_code is ExitCode.USAGE
        return [
            f"{problem.line}: {problem.key}: {problem.message}".replace(f"{CERTIFICATES}/", "")
            for problem in caught.value.problems
        ]

    return of


class TestTaken:
    @pytest.mark.parametrize(
        "text", ["", "---", "# nothing", "tls_server_config:\n", "basic_auth_users: {}\n"]
    )
    def test_nothing(self, load, text):
        access = load(text)
        assert (access.tls, access.users, access.headers, access.rate_limit) == (None, {}, {}, None)
        assert not access.is_private

    def test_tls(self, load):
        access = load(TLS)
        assert access.tls.context.verify_mode is ssl.CERT_NONE
        assert access.tls.context.minimum_version is ssl.TLSVersion.TLSv1_2
        assert not access.is_private  # nobody is asked who they are

    def test_everything(self, load):
        text = (
            TLS
            + CA
            + VERIFY
            + "  client_allowed_sans: [prometheus.example]\n  min_version: TLS13\n  max_version: TLS13\n"
            + "http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: deny\n    X-XSS-Protection:\n"
            + f"basic_auth_users:\n  123: {HASHED}\n  no: '{HASHED}'\n"
            + "rate_limit:\n  interval: 100ms\n  burst: 20\n"
        )
        access = load(text)
        assert access.tls.requires_client_certificate
        assert access.tls.allowed_sans == {"prometheus.example"}
        assert access.tls.context.minimum_version is ssl.TLSVersion.TLSv1_3
        assert access.tls.context.maximum_version is ssl.TLSVersion.TLSv1_3
        assert access.users == {"123": HASHED.encode(), "no": HASHED.encode()}
        assert access.headers == {"X-Frame-Options": "deny"}
        assert access.rate_limit == RateLimit(0.1, 20)
        assert access.is_private

    def test_inline(self, load):
        def block(name, file):
            lines = (CERTIFICATES / file).read_text().splitlines()
            return f"  {name}: |\n" + "".join(f"    {line}\n" for line in lines)

        text = "tls_server_config:\n" + block("cert", "server.pem") + block("key", "server.key")
        access = load(text + block("client_ca", "ca.pem") + VERIFY)
        assert access.tls.requires_client_certificate
        assert [ca["subject"] for ca in access.tls.context.get_ca_certs()]

    def test_paths_are_relative_to_the_file(self, load, tmp_path):
        for name in ("server.pem", "server.key"):
            (tmp_path / name).write_bytes((CERTIFICATES / name).read_bytes())
        assert load("tls_server_config: {cert_file: server.pem, key_file: server.key}").tls is not None

    def test_a_password_without_tls_is_not_private(self, load):
        assert not load(f"basic_auth_users: {{a: {HASHED}}}").is_private

    @pytest.mark.parametrize("interval", ["0", "0s"])
    def test_no_rate_limit(self, load, interval):
        assert load(f"rate_limit: {{interval: {interval}, burst: 1}}").rate_limit is None


SECTION = "tls_server_config"
BAD_TLS = {
    "no key": (
        f"tls_server_config:\n  cert_file: {CERTIFICATES}/server.pem",
        f"1: {SECTION}: key_file is missing",
    ),
    "no such file": (
        TLS.replace("server.pem", "none.pem"),
        f"2: {SECTION}.cert_file: none.pem cannot be read: no such file or directory",
    ),
    "another key": (
        TLS.replace("server.key", "client.key"),
        f"3: {SECTION}.key_file: client.key does not belong to the certificate",
    ),
    "encrypted": (
        TLS.replace("server.key", "encrypted.key"),
        f"3: {SECTION}.key_file: encrypted.key is encrypted, and there is nobody to ask for the password",
    ),
    "expired": (
        TLS.replace("server.", "expired."),
        f"2: {SECTION}.cert_file: expired.pem expired at 2020-02-01 00:00Z",
    ),
    "for clients": (
        TLS.replace("server.", "client."),
        f"2: {SECTION}.cert_file: client.pem would be refused by clients: unsuitable certificate purpose",
    ),
    "swapped": (
        f"tls_server_config:\n  cert_file: {CERTIFICATES}/server.key\n  key_file: {CERTIFICATES}/server.pem",
        f"2: {SECTION}.cert_file: server.key holds no certificate in PEM form",
    ),
    "no private key": (
        TLS.replace("server.key", "server.pem"),
        f"3: {SECTION}.key_file: server.pem holds no private key in PEM form",
    ),
    "both": (TLS + "  cert: x\n", f"4: {SECTION}.cert: stands beside cert_file; keep one of the two"),
    "authority that nobody is held to": (
        TLS + CA,
        (
            f"1: {SECTION}.client_auth_type: is missing: a client CA asks nobody for a certificate without "
            "RequireAndVerifyClientCert"
        ),
    ),
    "no authority": (
        TLS + VERIFY,
        f"4: {SECTION}.client_auth_type: RequireAndVerifyClientCert needs client_ca_file",
    ),
    "an authority that is none": (
        TLS + CA.replace("ca.pem", "server.key") + VERIFY,
        f"4: {SECTION}.client_ca_file: server.key holds no usable certificate in PEM form",
    ),
    "names without certificates": (
        TLS + "  client_allowed_sans: [a]\n",
        f"4: {SECTION}.client_allowed_sans: needs client_auth_type: RequireAndVerifyClientCert",
    ),
    "unverified certificates": (
        TLS + "  client_auth_type: RequireAnyClientCert\n",
        (
            f"4: {SECTION}.client_auth_type: RequireAnyClientCert is not supported by gpumond: it lets any certificate in; "
            "use RequireAndVerifyClientCert"
        ),
    ),
    "unknown type": (
        TLS + "  client_auth_type: Always\n",
        (
            f"4: {SECTION}.client_auth_type: must be one of NoClientCert, VerifyClientCertIfGiven, "
            "RequireAndVerifyClientCert (got Always)"
        ),
    ),
    "old": (
        TLS + "  min_version: TLS10\n",
        f"4: {SECTION}.min_version: TLS10 is not supported by gpumond: it is broken (RFC 8996); use TLS12 or TLS13",
    ),
    "no version": (
        TLS + "  max_version: '1.3'\n",
        f"4: {SECTION}.max_version: must be TLS12 or TLS13 (got 1.3)",
    ),
    "versions": (
        TLS + "  min_version: TLS13\n  max_version: TLS12\n",
        f"4: {SECTION}.min_version: is above max_version",
    ),
    **{
        name: (
            TLS + f"  {name}: {value}\n",
            f"4: {SECTION}.{name}: is not supported by gpumond: OpenSSL chooses, by the policy of this host; leave it out",
        )
        for name, value in (
            ("cipher_suites", "[TLS_AES_128_GCM_SHA256]"),
            ("curve_preferences", "[X25519]"),
            ("prefer_server_cipher_suites", "true"),
        )
    },
    "misspelt": (
        TLS + "  client_ca_flie: x\n",
        f"4: {SECTION}.client_ca_flie: is not a key of a web configuration file",
    ),
    "a list": (TLS + "  min_version: [TLS13]\n", f"4: {SECTION}.min_version: must be text"),
}
BAD_REST = {
    "unknown": ("tls_config: {}", "1: tls_config: is not a key of a web configuration file"),
    "text for a mapping": ("basic_auth_users: alice", "1: basic_auth_users: must be a mapping"),
    "a password": (
        "basic_auth_users:\n  alice: secret",
        "2: basic_auth_users.alice: must be a bcrypt hash, such as `htpasswd -nBC 10 NAME` prints",
    ),
    "cost": (
        f"basic_auth_users:\n  alice: {HASHED.replace('$04$', '$31$')}",
        "2: basic_auth_users.alice: has the bcrypt cost 31; a check should take a fraction of a second: use 10 to 12",
    ),
    "colon": (
        f"basic_auth_users:\n  'a:b': {HASHED}",
        "2: basic_auth_users.a:b: a name must not be empty, nor hold a colon",
    ),
    "http2": (
        "http_server_config:\n  http2: true",
        "2: http_server_config.http2: true is not supported by gpumond: it speaks HTTP/1.1; leave it out, or write false",
    ),
    "header": (
        "http_server_config:\n  headers:\n    Server: x",
        (
            "3: http_server_config.headers.Server: is not a header that can be set; there are Content-Security-Policy, "
            "X-Frame-Options, X-Content-Type-Options, X-XSS-Protection, Strict-Transport-Security"
        ),
    ),
    "value": (
        "http_server_config:\n  headers:\n    X-Frame-Options: DENY",
        "3: http_server_config.headers.X-Frame-Options: must be deny or sameorigin (got DENY)",
    ),
    "injection": (
        'http_server_config:\n  headers:\n    X-XSS-Protection: "a\\r\\nb: c"',
        "3: http_server_config.headers.X-XSS-Protection: must be one line of text",
    ),
    "burst": (
        "rate_limit:\n  interval: 1s\n",
        "1: rate_limit.burst: must be a whole number from 1 on, else nobody is let in (got 0)",
    ),
    "interval": (
        "rate_limit:\n  interval: 1\n  burst: 1",
        '2: rate_limit.interval: must be a duration with its unit, such as "60s", "5m", "2h", "1d" or "1h30m" (got 1)',
    ),
    "twice": (
        "rate_limit: {}\nrate_limit: {}",
        "2: : rate_limit stands twice",
    ),
    "alias": ("a: &x {}\nb: *x", "2: : aliases (*name) are not supported"),
    "list": ("- a", "1: : must be a mapping, such as `tls_server_config:`"),
    "no YAML": ("a: [", "1: : not valid YAML: expected the node content, but found '<stream end>'"),
    "tab": ("a:\n\tb: c", "2: : not valid YAML: found character '\\t' that cannot start any token"),
    "control": (
        "a: \x00",
        "0: : not valid YAML: unacceptable character #x0000: special characters are not allowed",
    ),
    "deep": ("[" * 5000, "0: : not valid YAML: nested too deep"),
}


class TestRefused:
    @pytest.mark.parametrize(("text", "said"), BAD_TLS.values(), ids=BAD_TLS)
    def test_tls(self, complaints, text, said):
        assert said in complaints(text)

    @pytest.mark.parametrize(("text", "said"), BAD_REST.values(), ids=BAD_REST)
    def test_the_rest(self, complaints, text, said):
        assert [line.split("\n")[0] for line in complaints(text)] == [said]

    def test_all_at_once_in_the_order_of_lines(self, complaints):
        said = complaints("basic_auth_users: {a: b}\nrate_limit: {interval: x}\nzz: 1\n")
        assert [line.split(":")[0] for line in said] == ["1", "2", "3"]

    def test_no_password_is_repeated(self, complaints):
        assert "hunter2" not in "".join(complaints("basic_auth_users: {alice: hunter2}"))

    def test_no_file(self, tmp_path):
        with pytest.raises(ConfigError, match="no such file") as caught:
            load_web_file(tmp_path / "none.yml", now=AT)
        assert caught.value.hint

    def test_a_pipe_and_a_directory(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "pipe", tmp_path):
            with pytest.raises(ConfigError, match="is no regular file"):
                load_web_file(path, now=AT)

    def test_bytes(self, tmp_path):
        (tmp_path / "web.yml").write_bytes(b"\xff")
        with pytest.raises(ConfigError, match="is not UTF-8"):
            load_web_file(tmp_path / "web.yml", now=AT)

    def test_a_very_large_file(self, tmp_path):
        (tmp_path / "web.yml").write_bytes(b"#" * ((1 << 20) + 1))
        with pytest.raises(ConfigError, match="is larger than 1 MiB"):
            load_web_file(tmp_path / "web.yml", now=AT)

    def test_a_key_that_our_user_may_not_read(self, readable_by_nobody):
        directory = readable_by_nobody
        for name in ("server.pem", "server.key"):
            shutil.copyfile(CERTIFICATES / name, directory / name)
        (directory / "server.pem").chmod(0o644)
        (directory / "server.key").chmod(0o600 if os.geteuid() == 0 else 0)
        (directory / "web.yml").write_text(
            "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
        )
        with as_nobody(), pytest.raises(ConfigError) as caught:
            load_web_file(directory / "web.yml", now=AT)
        assert f"{directory}/server.key cannot be read: permission denied" in caught.value.message
        assert len(caught.value.problems) == 1


@pytest.fixture
def readable_by_nobody():
    """A directory that every user may enter; pytest's own is closed to others."""
    with tempfile.TemporaryDirectory(prefix="gpumond-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextlib.contextmanager
def as_nobody():
    """Root reads everything, so it steps back for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
