import importlib.util
import subprocess
import sys

import pytest

ADVICE = "pip install 'docstore[kafka]'"


def test_without_aiokafka_the_error_names_the_package() -> None:
    program = "import sys; sys.modules['aiokafka'] = None; import docstore.client.kafka"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ADVICE in done.stderr
    if importlib.util.find_spec("aiokafka") is None:
        pytest.skip(f"the other tests of this folder need aiokafka: {ADVICE}")
