"""Make a Spark session that knows the formats, and name what is missing before Spark fails."""

import os
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakSet

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from docstore.pipeline import pushing
from docstore.pipeline.errors import PipelineError
from docstore.pipeline.source import AdminSource, ChangesSource, DocstoreSource, RecordsSource

JAVA_MAJORS = (17, 21)
REMOTE = "sc://"
MASTERS = re.compile(
    r"local(\[([0-9]+|\*)(,\s*[0-9]+)?\])?|local-cluster\[.+\]|(spark|k8s|sc)://.+|yarn"
)
_introduced: WeakSet[SparkSession] = WeakSet()


class JavaMissing(PipelineError, RuntimeError):
    """No Java is found that Spark supports."""


class PythonMissing(PipelineError, RuntimeError):
    """PYSPARK_PYTHON names a Python that Spark cannot use here."""


class NotSet(PipelineError, ValueError):
    """A running session cannot take a setting; a new session can."""


class BadMaster(PipelineError, ValueError):
    """Spark does not know the master."""


def session(master: str = "local[2]", app: str = "docstore", **settings: Any) -> SparkSession:
    """Return a session with the formats registered, times in UTC and this Python for local workers.

    master: Spark's, or `sc://host:port` of a Connect server, whose Python must have this package.
    settings: Spark's own, with `_` for each dot, with or without `spark_` in front. Raises
    BadMaster, JavaMissing, PythonMissing; NotSet if a running session cannot take a setting.
    """
    insist_on_master(master)
    named = {_setting(name): str(value) for name, value in settings.items()}
    if master.startswith(REMOTE):
        return _connected(master, app, named)
    insist_on_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        insist_on_python(os.environ["PYSPARK_PYTHON"])
    builder: Any = SparkSession.builder
    builder = builder.master(master).appName(app)
    defaults = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": "8",
        pushing.SETTING: "true",
    }
    if master.startswith("local"):
        defaults["spark.driver.host"] = "127.0.0.1"
    for name, value in (defaults | named).items():
        builder = builder.config(name, value)
    is_new = SparkSession.getActiveSession() is None
    spark: SparkSession = builder.getOrCreate()
    given = spark.sparkContext.getConf()
    for name, value in named.items():
        if not is_new and not spark.conf.isModifiable(name) and given.get(name) != value:
            raise NotSet(
                f"{name} is already {given.get(name)} in the running Spark "
                "session: stop the session first"
            )
    introduce(spark)
    return spark


def _setting(name: str) -> str:
    return "spark." + name.replace("_", ".").removeprefix("spark.")


def _connected(address: str, app: str, named: Mapping[str, str]) -> SparkSession:
    builder: Any = SparkSession.builder
    spark: SparkSession = builder.remote(address).appName(app).getOrCreate()
    for name, value in {"spark.sql.session.timeZone": "UTC", **named}.items():
        spark.conf.set(name, value)
    introduce(spark)
    return spark


def introduce(spark: SparkSession) -> None:
    """Register the formats in a session that does not find them by itself.

    Spark finds them by the folders of its Python path only, so not in a package of --py-files or
    one that is installed editable. A Connect server searches its own path.
    """
    if spark in _introduced:
        return
    found = any(module.name == "pyspark_docstore" for module in pkgutil.iter_modules())
    if is_remote() or not found:
        register(spark)
    _introduced.add(spark)


def register(spark: SparkSession) -> None:
    """Register the formats in a session, so that `format("docstore")` finds them.

    The helpers of this package do so where it is needed.
    """
    spark.dataSource.register(DocstoreSource)
    spark.dataSource.register(ChangesSource)
    spark.dataSource.register(RecordsSource)
    spark.dataSource.register(AdminSource)


def insist_on_master(master: str) -> None:
    """Raise BadMaster for a master that Spark does not know."""
    if not MASTERS.fullmatch(master):
        raise BadMaster(
            "the master must be one that Spark knows, such as local[2], "
            "spark://host:7077, yarn, k8s://https://host:port or "
            f"sc://host:port; got {master!r}"
        )


def insist_on_python(python: str) -> None:
    """Raise PythonMissing for a Python that workers on this machine cannot start with."""
    if python == sys.executable:
        return
    wanted = f"PYSPARK_PYTHON is {python!r}"
    if shutil.which(python) is None:
        raise PythonMissing(f"{wanted}, which is not an installed program")
    asked = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout  # noqa: S603
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if told.strip() != ours:
        raise PythonMissing(f"{wanted}, whose version is {told.strip() or '?'}; it must be {ours}")


def insist_on_java() -> str:
    """Return the path of Java. Raises JavaMissing."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java") or ""
    wanted = "Spark needs Java 17 or 21: apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
    if not java or not Path(java).exists():
        raise JavaMissing(wanted)
    asked = [java, "-version"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stderr  # noqa: S603
    words = told.split('"')
    major = words[1].split(".")[0] if len(words) > 1 else ""
    if major not in map(str, JAVA_MAJORS):
        raise JavaMissing(f"{java} is version {major or 'unknown'}. {wanted}")
    return java
