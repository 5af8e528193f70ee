import gzip
import posixpath
import re

import httpx
import pytest

from heliograph.web.page import page_files

_BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
_OURS = sorted(path for path in page_files().by_path if not path.startswith("vendor/"))
_SCRIPTS = [path for path in _OURS if path.endswith(".js")]


def test_a_browser_gets_the_page_and_a_program_gets_connects_answer(client: httpx.Client) -> None:
    page = client.get("/", headers=_BROWSER)
    assert page.headers["content-type"].startswith("text/html")
    assert "<main" in page.text
    assert client.get("/").json().keys() == {"version", "commit", "kafka_cluster_id"}


def test_all_that_the_page_names_is_there_and_may_be_kept(client: httpx.Client) -> None:
    page = client.get("/", headers=_BROWSER)
    assert page.headers["cache-control"] == "no-store"
    named = re.findall(r'(?:src|href)="(/[^"]*)"', page.text)
    assert len(named) > 10
    for address in named:
        answer = client.get(address)
        assert answer.status_code == 200, address
        assert "immutable" in answer.headers["cache-control"]


def test_nothing_but_the_pages_own_files_may_run(client: httpx.Client) -> None:
    page = client.get("/", headers=_BROWSER)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"


def test_a_file_is_sent_compressed_to_who_can_read_that(client: httpx.Client) -> None:
    address = f"/page/{page_files().digest}/app.js"
    with client.stream("GET", address) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(answer.iter_raw())) == page_files().by_path["app.js"].plain
    plain = client.get(address, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers


@pytest.mark.parametrize(
    "address", ["/page/{}/../app.py", "/page/{}/%2e%2e/app.py", "/page/{}/no.js", "/page/0/app.js"]
)
def test_what_is_no_file_of_this_page_is_not_found(client: httpx.Client, address: str) -> None:
    assert client.get(address.format(page_files().digest)).status_code == 404


@pytest.mark.parametrize("path", _SCRIPTS)
def test_a_module_writes_text_alone_and_imports_what_there_is(path: str) -> None:
    source = page_files().by_path[path].plain.decode()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", source)
    for name in re.findall(r'from "(\.[^"]*)"', source):
        found = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        assert found in page_files().by_path, f"{path} imports {name}"


@pytest.mark.parametrize("path", _OURS)
def test_nothing_is_loaded_from_elsewhere(path: str) -> None:
    source = page_files().by_path[path].plain.decode().replace("http://www.w3.org/2000/svg", "")
    assert "http://" not in source
    assert "https://" not in source


def test_the_whole_page_is_small() -> None:
    packed = sum(len(file.packed) for file in page_files().by_path.values())
    assert packed + len(page_files().page.packed) < 100_000
