"""An idempotent producer in a separate process.

    python -m tests.docstore.kafka.clients.writer CLIENT BOOTSTRAP TOPIC

It appends rounds of records with growing values, and prints a line once a round is committed.
SIGTERM: it ends after the round.
"""

import itertools
import os
import signal
import sys

from tests.docstore.kafka.clients.tools import TOOLS, Message

ROUND = 500


def main(client: str, bootstrap: str, topic: str) -> None:
    """Append until SIGTERM."""
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    for begin in itertools.count(0, ROUND):
        some = [Message(b"k", b"%d" % n) for n in range(begin, begin + ROUND)]
        TOOLS[client](bootstrap).produce(topic, some, "gzip", is_idempotent=True)
        os.write(1, b"%d\n" % begin)
        if signals:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
