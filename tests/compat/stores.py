"""Directories of nodes, one of each protocol, and the answers of those nodes.

`store_N.tar.xz` has the directory of the only node of a group after a clean stop, and
`expected.json`: path -> the page that the node answered.
"""

import json
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from docstore.client.local import LocalCluster

FOLDER = Path(__file__).parent
SETTINGS = ("--slots", "16")
EXPECTED = "expected.json"
JSON = {"Content-Type": "application/json"}
LEVELS = {
    "/weak": ["PERSISTENCE", "REPLICATION"],
    "/middle": ["PERSISTENCE", "REPLICATION", "OWNER_SELECTION"],
    "/strong": ["PERSISTENCE", "REPLICATION", "OWNER_SELECTION", "ENFORCE_QUORUM"],
}
COUNT = 12


class Asker:
    """A client of one node that speaks plain HTTP, as clients of every version do."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the page of an answer, whatever its status, with that in it; lists are lines."""
        lines = body if isinstance(body, list) else [] if body is None else [body]
        raw = b"\n".join(json.dumps(line).encode() for line in lines) or None
        request = urllib.request.Request(self._url + path, raw, {**JSON, **headers}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                status, content = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, content = error.code, error.read()
        pages = [json.loads(line) for line in content.splitlines()] or [{}]
        return {"status": status, "page": pages if len(pages) > 1 else pages[0]}


def fill(asker: Asker) -> list[str]:
    """Make one of everything that a node stores; return the paths that show it."""
    paths: list[str] = []
    done = []
    for factory, options in LEVELS.items():
        done.append(asker.ask("POST", "/core/factories", {"path": factory, "options": options}))
        for number in range(COUNT):
            link = f"{factory}/{number}"
            body = {"documentSelfLink": link, "n": number, "text": "\u00e9\n" * number}
            done.append(asker.ask("POST", factory, body))
            if number % 3 == 0:
                more = {"n": -number, "more": [number, None, {"a": 0.5}]}
                done.append(asker.ask("PATCH", link, more))
            if number % 4 == 3:
                done.append(asker.ask("DELETE", link))
            paths += [link, f"{link}/versions"]
        paths.append(factory)
    done.append(asker.ask("PUT", "/strong/1", {"guarded": True}, Fence="locks/a:7"))
    done.append(asker.ask("POST", "/core/factories", {"path": "/orders:"}))
    links = [f"/orders:/42{part}" for part in ("", "~1", "~2")]
    batch = [{"link": link, "body": {"of": 42}} for link in links]
    done.append(asker.ask("POST", "/core/bulk?atomic=true", batch, Fence="locks/b:7"))
    paths += links
    topic = {"name": "flights", "partitions": 2, "replicationFactor": 1}
    done.append(asker.ask("POST", "/core/streams", topic, Prefer="wait=10"))
    for number in range(COUNT):
        records = f"/core/streams/flights/partitions/{number % 2}/records"
        record = {"value": {"n": number}, "key": f"k{number}"}
        done.append(asker.ask("POST", records, record))
        paths.append(f"{records}/{number // 2}")
    assert all(each["status"] < 300 for each in done), done
    return paths


def answers(asker: Asker, paths: list[str]) -> dict[str, Any]:
    """Return path -> the answer of a node."""
    return {path: asker.ask("GET", path) for path in paths}


def make(file: Path) -> None:
    """Fill a node, stop it, and keep its directory."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(1, Path(folder), SETTINGS)
        [node] = cluster.nodes
        with cluster:
            asker = Asker(node.url)
            expected = answers(asker, fill(asker))
        (node.data / "log.txt").unlink()
        (Path(folder) / EXPECTED).write_text(json.dumps(expected))
        with tarfile.open(file, "w:xz") as archive:
            archive.add(node.data, "n1")
            archive.add(Path(folder) / EXPECTED, EXPECTED)


def file_of(protocol: int) -> Path:
    """Return the directory that is kept of a protocol."""
    return FOLDER / f"store_{protocol}.tar.xz"


def files() -> list[Path]:
    """Return the directories that are kept, the oldest first."""
    return sorted(FOLDER.glob("store_*.tar.xz"))
