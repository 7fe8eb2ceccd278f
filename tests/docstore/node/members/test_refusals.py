"""Each refusal of a change of members has its own code."""

import re
from pathlib import Path

from docstore.documents.membership import change
from docstore.reads.refusals import refusal


def test_a_refusal_has_the_code_and_the_status_that_the_leader_gave_it() -> None:
    source = Path(change.__file__).read_text()
    raised = re.findall(r'ChangeRefused\(\s*(\d+),\s*"([a-z-]+)"', source)
    assert len(set(raised)) == 7
    for status, code in raised:
        error = refusal(code, "why")
        assert (error.status, error.code, str(error)) == (int(status), code, "why")
