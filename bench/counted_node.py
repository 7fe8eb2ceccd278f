"""A node that counts the calls of functions in its event loop; `bench.calls` starts it.

Each time the file `ask` appears in its working directory, it writes the counts since its start to
`PID.json` there: function -> calls.
"""

import cProfile
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

ROOT = str(Path(__file__).parent.parent) + os.sep


def counts(profile: Any) -> dict[str, int]:
    """Return function -> calls; calls of functions in C count for the function that made them."""
    found: dict[str, int] = {}
    for entry in profile.getstats():
        if isinstance(entry.code, str):
            continue
        name = _name(entry.code)
        found[name] = found.get(name, 0) + entry.callcount
        for inner in entry.calls or ():
            if isinstance(inner.code, str):
                both = f"{inner.code} in {name}"
                found[both] = found.get(both, 0) + inner.callcount
    return found


def _name(code: Any) -> str:
    return f"{code.co_filename.removeprefix(ROOT)}:{code.co_qualname}"


def answer(profile: Any, directory: Path) -> None:
    """Write the counts each time that they are asked for."""
    kept = directory / f"{os.getpid()}.json"
    while True:
        time.sleep(0.02)
        if (directory / "ask").exists() and not kept.exists():
            part = kept.with_suffix(".part")
            part.write_text(json.dumps(counts(profile)))
            part.rename(kept)


if __name__ == "__main__":
    from docstore.__main__ import main

    profile = cProfile.Profile()
    directory = Path(os.environ["COUNTS_KEPT_IN"])
    threading.Thread(target=answer, args=(profile, directory), daemon=True).start()
    profile.enable()
    main()
