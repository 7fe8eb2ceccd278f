"""The logs of all partitions that this node has a replica of: by name, and by document."""

from docstore.streams.log import PartitionLog


class PartitionLogs(dict[str, PartitionLog]):
    """Name -> log; added to and taken from by `replicas.py` alone."""

    def __init__(self) -> None:
        """Know of none."""
        super().__init__()
        self._at: dict[str, list[PartitionLog]] = {}

    def at(self, link: str) -> list[PartitionLog]:
        """Return the replicas of a partition's document: of its incarnations, mostly one."""
        return self._at.get(link, [])

    def holds(self, log: PartitionLog) -> bool:
        """Say whether a log is still here, and was not dropped, and perhaps begun anew."""
        return self.get(log.name) is log

    def add(self, log: PartitionLog) -> None:
        """Know one more."""
        self[log.name] = log
        self._at[log.link] = [*self.at(log.link), log]

    def remove(self, log: PartitionLog) -> None:
        """Know one no more."""
        del self[log.name]
        self._at[log.link] = [each for each in self._at[log.link] if each is not log]
        if not self._at[log.link]:
            del self._at[log.link]
