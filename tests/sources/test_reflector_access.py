"""Ways in: kubeconfig, service account, credential programs; and everything that can be wrong with them."""

import base64
import json
import os
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from gpusight.model.time import ManualClock, SystemClock
from gpusight.sources.kubernetes.access import (
    Access,
    AccessError,
    Fixed,
    Pem,
    TokenFile,
    find_access,
    from_kubeconfig,
    in_cluster,
)
from gpusight.sources.kubernetes.client import ApiClient, ApiError, Limits
from tests.support.certificates import Authority, Pair
from tests.support.fake_kube import FakeKube, fake_kube

PODS = "/api/v1/pods"


class Secured(NamedTuple):
    """A server that asks for a client's certificate where `tls.verify_mode` says so."""

    kube: FakeKube
    tls: ssl.SSLContext
    ca: Path
    client: Pair


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("pki")
    authority = Authority(directory)
    server = authority.issue("server")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(server.cert, server.key)
    tls.load_verify_locations(authority.cert)
    with fake_kube(tls=tls) as kube:
        yield Secured(kube, tls, authority.cert, authority.issue("client"))


@pytest.fixture
def asks_for_certificates(secured: Secured) -> Iterator[None]:
    secured.tls.verify_mode = ssl.CERT_REQUIRED
    yield
    secured.tls.verify_mode = ssl.CERT_NONE


def write_kubeconfig(path: Path, cluster: dict[str, Any], user: dict[str, Any] | None = None) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "other", "context": {}}, {"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


def load(path: Path, clock: Any = None, **options: Any) -> Access:
    return from_kubeconfig(path, os.environ, clock or SystemClock(), **options)


def ask(access: Access) -> Any:
    return json.loads(ApiClient(access, SystemClock(), Limits(requests=100)).get(PODS, within=5))


def reason_of(access: Access) -> str:
    with pytest.raises(ApiError) as error:
        ask(access)
    return error.value.reason


def text(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


# --- TLS -------------------------------------------------------------------------------------------------------------


def test_the_servers_certificate_is_checked(secured: Secured, tmp_path: Path) -> None:
    good = load(
        write_kubeconfig(tmp_path / "c", {"server": secured.kube.url, "certificate-authority": str(secured.ca)})
    )
    assert ask(good)["kind"] == "PodList"
    other = Authority(tmp_path, "other").cert
    bad = load(write_kubeconfig(tmp_path / "c", {"server": secured.kube.url, "certificate-authority": str(other)}))
    assert reason_of(bad) == "tls"
    assert reason_of(load(write_kubeconfig(tmp_path / "c", {"server": secured.kube.url}))) == "tls"


def test_certificates_may_stand_in_the_file(secured: Secured, tmp_path: Path, asks_for_certificates: None) -> None:
    path = write_kubeconfig(
        tmp_path / "c",
        {"server": secured.kube.url, "certificate-authority-data": text(secured.ca)},
        {"client-certificate-data": text(secured.client.cert), "client-key-data": text(secured.client.key)},
    )
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert ask(load(path))["kind"] == "PodList"
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_paths_are_relative_to_the_file(secured: Secured, tmp_path: Path, asks_for_certificates: None) -> None:
    for name, path in (("ca", secured.ca), ("cert", secured.client.cert), ("key", secured.client.key)):
        (tmp_path / name).write_bytes(path.read_bytes())
    path = write_kubeconfig(
        tmp_path / "c",
        {"server": secured.kube.url, "certificate-authority": "ca"},
        {"client-certificate": "cert", "client-key": "key"},
    )
    assert ask(load(path))["kind"] == "PodList"


def test_a_client_without_certificate_is_refused(
    secured: Secured, tmp_path: Path, asks_for_certificates: None
) -> None:  # fmt: skip
    path = write_kubeconfig(tmp_path / "c", {"server": secured.kube.url, "certificate-authority": str(secured.ca)})
    assert reason_of(load(path)) in {"tls", "disconnected"}


def test_unchecked_only_if_asked(secured: Secured, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "c", {"server": secured.kube.url})
    assert ask(load(path, insecure=True))["kind"] == "PodList"
    path = write_kubeconfig(tmp_path / "c", {"server": secured.kube.url, "insecure-skip-tls-verify": True})
    assert ask(load(path))["kind"] == "PodList"
    path = write_kubeconfig(tmp_path / "c", {"server": secured.kube.url, "insecure-skip-tls-verify": "true"})
    assert reason_of(load(path)) == "tls"


def test_the_name_on_the_certificate_may_be_given(secured: Secured, tmp_path: Path) -> None:
    cluster = {"server": secured.kube.url, "certificate-authority": str(secured.ca)}
    path = write_kubeconfig(tmp_path / "c", {**cluster, "tls-server-name": "localhost"})
    assert ask(load(path))["kind"] == "PodList"
    path = write_kubeconfig(tmp_path / "c", {**cluster, "tls-server-name": "elsewhere.example"})
    assert reason_of(load(path)) == "tls"


def test_certificates_that_cannot_be_used(secured: Secured, tmp_path: Path) -> None:
    cluster = {"server": secured.kube.url}
    for given in ({"certificate-authority": "none"}, {"certificate-authority-data": text(secured.client.key)}):
        path = write_kubeconfig(tmp_path / "c", {**cluster, **given})
        assert reason_of(load(path)) == "no_credentials"


def test_a_plain_server_is_no_tls_server(tmp_path: Path) -> None:
    with fake_kube() as kube:
        path = write_kubeconfig(tmp_path / "c", {"server": kube.url.replace("http:", "https:")})
        assert reason_of(load(path)) in {"tls", "disconnected"}


# --- proofs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({}, None),
        ({"token": "t0ken"}, "Bearer t0ken"),
        ({"username": "me", "password": "pass"}, f"Basic {base64.b64encode(b'me:pass').decode()}"),
        ({"tokenFile": "token", "token": "less"}, "Bearer from-file"),
    ],
)
def test_fixed_proofs(tmp_path: Path, user: dict[str, Any], header: str | None) -> None:
    (tmp_path / "token").write_text("from-file\n")
    access = load(write_kubeconfig(tmp_path / "c", {"server": "https://x"}, user))
    assert access.credentials.headers().get("Authorization") == header
    assert access.credentials.certificate() is None


def test_a_token_is_read_again_each_minute(tmp_path: Path) -> None:
    clock = ManualClock()
    path = tmp_path / "token"
    path.write_text("one")
    proof = TokenFile(path, clock)
    assert proof.headers() == {"Authorization": "Bearer one"}
    path.write_text("two")
    clock.advance(59)
    assert proof.headers() == {"Authorization": "Bearer one"}
    clock.advance(1)
    assert proof.headers() == {"Authorization": "Bearer two"}


def test_a_token_that_the_server_refuses_is_read_again_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    with fake_kube(token="new") as kube:
        client = ApiClient(Access(kube.url, TokenFile(path, ManualClock())), SystemClock(), Limits(requests=100))
        with pytest.raises(ApiError) as error:
            client.get(PODS)
        assert error.value.reason == "unauthorized"
        assert len(kube.requests) == 1
        path.write_text("new")
        assert b"PodList" in client.get(PODS)
        assert [request.authorization for request in kube.requests[1:]] == ["Bearer old", "Bearer new"]


@pytest.mark.parametrize("content", [b"", b"\n", b"two\nlines", b"\xff\xfe", "größer".encode()])
def test_a_token_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(AccessError):
        TokenFile(tmp_path / "token", ManualClock()).headers()


def test_no_token_is_a_reason() -> None:
    access = Access("http://127.0.0.1:9", TokenFile(Path("/nonexistent/token"), ManualClock()))
    assert reason_of(access) == "no_credentials"


PLUGIN = """
import json, os, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
count = open(sys.argv[1], "a+"); count.write("x"); count.seek(0); number = len(count.read())
status = {"token": f"{os.environ['PREFIX']}-{number}", **json.loads(sys.argv[2])}
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def plugin(directory: Path, status: dict[str, Any] | None = None) -> dict[str, Any]:
    (directory / "plugin.py").write_text(PLUGIN)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(directory / "plugin.py"), str(directory / "count"), json.dumps(status or {})],
            "env": [{"name": "PREFIX", "value": "p"}],
        }
    }


def test_a_credential_program_is_asked_until_its_answer_expires(tmp_path: Path) -> None:
    clock = ManualClock(now=1_700_000_000.0)
    user = plugin(tmp_path, {"expirationTimestamp": "2023-11-14T22:23:20Z"})  # ten minutes later
    proof = load(write_kubeconfig(tmp_path / "c", {"server": "https://x"}, user), clock).credentials
    assert proof.headers() == {"Authorization": "Bearer p-1"}
    clock.advance(500)
    assert proof.headers() == {"Authorization": "Bearer p-1"}
    clock.advance(50)
    assert proof.headers() == {"Authorization": "Bearer p-2"}
    assert proof.renew()
    assert proof.certificate() is None


def test_a_credential_program_may_give_a_certificate(
    secured: Secured, tmp_path: Path, asks_for_certificates: None
) -> None:  # fmt: skip
    given = {"clientCertificateData": secured.client.cert.read_text(), "clientKeyData": secured.client.key.read_text()}
    cluster = {"server": secured.kube.url, "certificate-authority": str(secured.ca)}
    access = load(write_kubeconfig(tmp_path / "c", cluster, plugin(tmp_path, {**given, "expirationTimestamp": "?"})))
    assert ask(access)["kind"] == "PodList"


@pytest.mark.parametrize(
    ("command", "args", "why"),
    [
        ("/nonexistent/program", [], "FileNotFoundError"),
        (sys.executable, ["-c", "import sys; print('s3cret', file=sys.stderr); sys.exit(3)"], "exit code 3"),
        (sys.executable, ["-c", "print('s3cret')"], "printed no ExecCredential"),
        (sys.executable, ["-c", "print('[]')"], "printed no ExecCredential"),
        (sys.executable, ["-c", "print('{\"status\": 7}')"], "printed no ExecCredential"),
    ],
)
def test_a_credential_program_that_fails(tmp_path: Path, command: str, args: list[str], why: str) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": args}}
    access = load(write_kubeconfig(tmp_path / "c", {"server": "https://x"}, user))
    with pytest.raises(AccessError, match=why) as error:
        access.credentials.headers()
    assert "s3cret" not in str(error.value)


# --- finding one -----------------------------------------------------------------------------------------------------


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = find_access(environ, ManualClock(), service_account=tmp_path)
    assert (access.server, access.ca) == ("https://10.0.0.1:6443", Pem(tmp_path / "ca.crt"))
    assert access.credentials.headers() == {"Authorization": "Bearer t"}
    assert in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1"}, ManualClock()).server == "https://[fd00::1]:443"


def test_the_order_of_looking(tmp_path: Path) -> None:
    given, named, home = (
        write_kubeconfig(tmp_path / name, {"server": f"https://{name}"}) for name in ("given", "named", "home")
    )
    (tmp_path / ".kube").mkdir()
    home.rename(tmp_path / ".kube" / "config")
    everything = {
        "KUBECONFIG": f"/nonexistent:{named}",
        "KUBERNETES_SERVICE_HOST": "pod",
        "HOME": str(tmp_path),
    }

    def server(*without: str, **options: Any) -> str:
        environ = {key: value for key, value in everything.items() if key not in without}
        return find_access(environ, ManualClock(), **options).server

    assert server(kubeconfig=given) == "https://given"
    assert server() == "https://named"
    assert server("KUBECONFIG") == "https://pod:443"
    assert server("KUBECONFIG", "KUBERNETES_SERVICE_HOST") == "https://home"
    with pytest.raises(AccessError, match="no kubeconfig"):
        server("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HOME")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "not YAML"),
        ("- 1", "the file is not a mapping"),
        ("{}", "there is no context ''"),
        ("current-context: x", "there is no context 'x'"),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c}}]}", "there is no cluster 'c'"),
        ("{current-context: x, contexts: [{name: x, context: 7}]}", "context is not a mapping"),
        ("{current-context: [1]}", "current-context is not text"),
        ("a: !!python/object:os.system x", "not YAML"),
    ],
)
def test_a_kubeconfig_that_makes_no_sense(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "c").write_text(content)
    with pytest.raises(AccessError, match=why):
        load(tmp_path / "c")


@pytest.mark.parametrize(
    ("cluster", "user", "why"),
    [
        ({}, {}, "no server address"),
        ({"server": "ftp://x"}, {}, "no server address"),
        ({"server": "https://x", "proxy-url": "http://p"}, {}, "proxy-url is not supported"),
        ({"server": "https://x", "certificate-authority-data": "%"}, {}, "is not base64"),
        ({"server": "https://x"}, {"auth-provider": {"name": "gcp"}}, "auth-provider is gone"),
        ({"server": "https://x"}, {"exec": []}, None),
        ({"server": "https://x"}, {"exec": "x"}, "exec is not a mapping"),
        ({"server": "https://x"}, {"token": 7}, "token is not text"),
    ],
)
def test_a_cluster_or_user_that_makes_no_sense(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], why: str | None
) -> None:
    path = write_kubeconfig(tmp_path / "c", cluster, user)
    if why is None:
        load(path)
        return
    with pytest.raises(AccessError, match=why):
        load(path)


def test_a_kubeconfig_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="cannot be read"):
        load(tmp_path / "none")
    with pytest.raises(AccessError, match="cannot be read"):
        load(tmp_path)


def test_secrets_do_not_show(tmp_path: Path) -> None:
    user = {
        "token": "s3cret",
        "client-key-data": base64.b64encode(b"s3cret").decode(),
        "client-certificate-data": "eA==",
    }
    access = load(write_kubeconfig(tmp_path / "c", {"server": "https://x"}, user))
    assert "s3cret" not in f"{access!r} {access.credentials!r} {Fixed('s3cret')!r}"
