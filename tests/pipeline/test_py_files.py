"""Scenario A1 where the package is not installed, but came with the job."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from tests.pipeline.stage import Stage

pytestmark = pytest.mark.thorough  # It starts a Java of its own.

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
import importlib.util, json, sys
from pyspark.sql import SparkSession
url, path = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
found = {"from": importlib.util.find_spec("docstore").origin}
table = spark.read.format("docstore").option("url", url)
try:
    table.load(path)
except Exception as error:
    found["before"] = str(error)[:200]
from docstore import pipeline
found["helper"] = pipeline.read(spark, url, path).count()
found["format"] = table.load(path).count()
print(json.dumps(found))
"""


def test_a01_formats_that_came_with_py_files(factory: Stage, tmp_path: Path) -> None:
    factory.put({str(n): {"n": n} for n in range(40)})
    library = without_us(tmp_path / "library")
    archive = zipped(tmp_path / "docstore.zip")
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    python = str(Path(sys.base_prefix) / "bin" / Path(sys.executable).resolve().name)
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    asked = [submit, "--master", "local[2]", "--py-files", str(archive), str(script), factory.url,
             factory.path]  # fmt: skip
    environment = {
        **os.environ, "PYTHONPATH": str(library), "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python, "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }  # fmt: skip
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=300,
                          cwd=tmp_path, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert archive.name in found["from"]
    assert "DATA_SOURCE_NOT_FOUND" in found["before"]
    assert (found["helper"], found["format"]) == (40, 40)


def without_us(directory: Path) -> Path:
    """Return a folder of all installed packages except this project."""
    directory.mkdir()
    for entry in Path(pyspark.__file__).parent.parent.iterdir():
        if "docstore" not in entry.name and entry.suffix != ".pth":
            (directory / entry.name).symlink_to(entry)
    return directory


def zipped(archive: Path) -> Path:
    with zipfile.ZipFile(archive, "w") as out:
        for package in ("docstore", "gossip"):
            for file in sorted((ROOT / package).rglob("*.py")):
                out.write(file, file.relative_to(ROOT))
    return archive
