"""Scenario A2: without PySpark or Java all is skipped or refused with a reason.

Always collected.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BLOCK = "import sys; sys.modules.update(dict.fromkeys(({names}), None)); import pytest;"
RUN = " sys.exit(pytest.main(['-q', '-rs', '-p', 'no:cacheprovider', 'tests/pipeline']))"


def test_a02_without_pyspark_the_tests_are_skipped_with_a_reason() -> None:
    finder = (
        "import importlib.util as u; f = u.find_spec;"
        " u.find_spec = lambda n, *a: None if n == 'pyspark' else f(n, *a);"
    )
    asked = [sys.executable, "-c", finder + BLOCK.format(names="'pyspark',") + RUN]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=ROOT, timeout=180)
    assert done.returncode == 0, done.stdout
    assert "pip install 'docstore[spark]'" in done.stdout
    assert " passed" not in done.stdout


def test_a02_without_java_the_error_names_the_package_to_install() -> None:
    asked = [sys.executable, "-m", "docstore", "spark", "balance"]
    environment = {"PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
    done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=ROOT, timeout=180,
                          env=environment)  # fmt: skip
    assert done.returncode == 1
    assert "openjdk-17-jre-headless" in done.stderr
