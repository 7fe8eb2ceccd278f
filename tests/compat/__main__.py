"""`python -m tests.compat`: write the golden file of the present protocol, once for all."""

import json
import sys

from docstore.wire import PROTOCOL
from tests.compat.golden import file_of, present

if __name__ == "__main__":
    file = file_of(PROTOCOL)
    if file.exists():
        sys.exit(f"{file.name} is there: what was written once is not written anew")
    file.write_text(json.dumps(present(), indent=1) + "\n")
