"""A broker for the tests of roles on Kafka: librdkafka's mock cluster, in a process of its own.

The library comes with the wheel of confluent-kafka and exports the functions of its own tests, so
three commands in ctypes are a broker in 50 ms: no Java, no port to choose, partitions at will. It
has a process of its own, which its asserts abort. It gets commands line by line:

    with Broker() as broker:
        broker.create_topic("pricing", partitions=6)
        KafkaRole(broker.bootstrap, "pricing", ...)

It behaves like a real one where roles depend on it: joins, generations, assignments by the group's
leader, sessions, offsets of records, and commits that are rejected from any client that is no
member of this generation. Where it differs, or limits the tests:

| behaviour                                                     | consequence                      |
|---------------------------------------------------------------|----------------------------------|
| a commit is checked by member and generation, not by the      | as real brokers do; proofs have  |
| assignment of the partition                                   | an era                           |
| a commit does not renew the session, only a heartbeat does    | members send both                |
| while members join, no heartbeat counts                       | S must exceed a rebalance        |
| a rebalance takes S - 1 s if S is over 1 s, else S, even if   | S = 1.5 s in tests               |
| all are back; only a first join takes `first_join_ms`         |                                  |
| silent members are searched for once a second                 | S + 1 s until they are removed   |
| records have the constant 1234 as their time                  | no rule uses a broker's time     |
| the first assignor of all members must be one, or it aborts   | members know only RoundRobin     |
| no way to delete records, to reset offsets, to check rights   | errors are pushed instead        |

`rd_kafka_mock_*` is "experimental": without it, or without a wheel, the tests are skipped with that
as the reason. Those of `ledgers.py` are also played on docstore's own listener.
"""

import ctypes
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

PRODUCE, FETCH, COMMIT = 0, 1, 8
"""Keys of requests that tests make fail."""
LOADING, NOT_LEADER, UNKNOWN_MEMBER, TOPIC_DENIED, GROUP_DENIED = 14, 6, 25, 29, 30
"""Errors of the protocol: three that pass by themselves, and two that do not."""

POINTER, TEXT, INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
SYMBOLS: dict[str, tuple[Any, ...]] = {
    "rd_kafka_new": (POINTER, INT, POINTER, TEXT, ctypes.c_size_t),
    "rd_kafka_mock_cluster_new": (POINTER, POINTER, INT),
    "rd_kafka_mock_cluster_bootstraps": (TEXT, POINTER),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, POINTER, ctypes.c_int32),
    "rd_kafka_mock_topic_create": (INT, POINTER, TEXT, INT, INT),
    "rd_kafka_mock_topic_delete": (INT, POINTER, TEXT),
    "rd_kafka_mock_broker_set_host_port": (None, POINTER, ctypes.c_int32, TEXT, INT),
    "rd_kafka_mock_push_request_errors_array": (
        *(None, POINTER, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(INT)),
    ),
    "rd_kafka_mock_clear_request_errors": (None, POINTER, ctypes.c_int16),
}
"""Name of a function -> the type of its result, then those of its arguments."""


def library() -> ctypes.CDLL:
    """Return the wheel's librdkafka, typed. Raises LookupError that names the missing part."""
    found = importlib.util.find_spec("confluent_kafka")
    if found is None or found.origin is None:
        raise LookupError("confluent-kafka is not installed")
    folder = Path(found.origin).parent.parent / "confluent_kafka.libs"
    path = next(folder.glob("librdkafka*"), None)
    if path is None:
        raise LookupError("this wheel of confluent-kafka brings no librdkafka of its own")
    loaded = ctypes.CDLL(str(path))
    for name, (answer, *arguments) in SYMBOLS.items():
        if not hasattr(loaded, name):
            raise LookupError(f"the librdkafka of this wheel does not export {name}")
        function = getattr(loaded, name)
        function.restype, function.argtypes = answer, arguments
    return loaded


class Broker:
    """The process, from the outside. A call returns when the broker has done it."""

    def __init__(self, first_join_ms: int = 100) -> None:
        """first_join_ms: how long an empty group waits for more members than its first."""
        command = [sys.executable, "-m", __name__, str(first_join_ms)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(  # Its warning that it has no peers is dropped.
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        self.bootstrap = self._answer()

    def create_topic(self, name: str, partitions: int) -> None:
        self._ask("topic", name, partitions)

    def delete_topic(self, name: str) -> None:
        self._ask("delete", name)

    def advertise(self, port: int) -> None:
        """Advertise the broker at this port of this host."""
        self._ask("advertise", port)

    def fail(self, request: int, error: int, times: int = 1) -> None:
        """Answer the next `times` requests of this kind with `error`."""
        self._ask("fail", request, error, times)

    def mend(self, request: int) -> None:
        """Fail no more requests of this kind."""
        self._ask("mend", request)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, *command: str | int) -> None:
        assert self._process.stdin is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)
        assert self._answer() == "done"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the broker has ended: one of its asserts?"
        return line.strip()


def serve(first_join_ms: int) -> None:
    """Run the broker until the commands end."""
    lib = library()
    complaint = ctypes.create_string_buffer(512)
    client = lib.rd_kafka_new(0, None, complaint, len(complaint))
    assert client, complaint.value
    cluster = lib.rd_kafka_mock_cluster_new(client, 1)
    lib.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, first_join_ms)
    print(lib.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    for line in sys.stdin:
        match json.loads(line):
            case ["topic", name, partitions]:
                error = lib.rd_kafka_mock_topic_create(cluster, name.encode(), partitions, 1)
                assert not error, error
            case ["delete", name]:
                error = lib.rd_kafka_mock_topic_delete(cluster, name.encode())
                assert not error, error
            case ["advertise", port]:
                lib.rd_kafka_mock_broker_set_host_port(cluster, 1, b"127.0.0.1", port)
            case ["fail", request, error, times]:
                errors = (INT * times)(*[error] * times)
                lib.rd_kafka_mock_push_request_errors_array(cluster, request, times, errors)
            case ["mend", request]:
                lib.rd_kafka_mock_clear_request_errors(cluster, request)
            case unknown:
                raise AssertionError(unknown)
        print("done", flush=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
