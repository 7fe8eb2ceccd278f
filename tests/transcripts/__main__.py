"""Write the transcripts anew: python -m tests.transcripts [NAME ...]."""

import sys

from tests.transcripts.pinned import FOLDER, SCENES, path_of, transcript

FOLDER.mkdir(exist_ok=True)
for name in sys.argv[1:] or SCENES:
    path_of(name).write_text(transcript(SCENES[name]), "utf-8")
