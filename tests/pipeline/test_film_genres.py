"""The example of genres per decade, with two films of one title and year."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "film_genres.py"


@pytest.mark.thorough  # It starts a Java of its own, and a group.
def test_films_of_one_title_and_year_are_films(tmp_path: Path) -> None:
    films = [
        {"title": "Swan Song", "year": 2021, "genres": ["Drama"], "cast": ["Udo Kier"]},
        {"title": "Swan Song", "year": 2021, "genres": ["Drama", "Romance"], "cast": []},
        {"title": "Heat", "year": 1995, "genres": ["Crime"], "cast": []},
    ]
    file = tmp_path / "films.json"
    file.write_text(json.dumps(films))
    command = [sys.executable, str(EXAMPLE), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300,
                          env=os.environ | {"PYSPARK_PYTHON": sys.executable})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "imported 3 films, digests equal: True" in done.stdout
    assert "the view equals a batch over the same cut, before and after a change" in done.stdout
