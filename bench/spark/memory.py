"""How much memory processes hold."""

from pathlib import Path


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def workers_mb() -> float:
    """Return the memory of the largest Python worker that Spark runs for us."""
    largest = 0.0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            if b"pyspark.daemon" in command:
                largest = max(largest, memory_mb(int(entry.name)))
        except OSError:
            continue
    return largest
