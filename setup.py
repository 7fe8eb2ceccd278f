"""How the wheel is built; what is declared stands in pyproject.toml.

In the repository, and in an editable installation, membership is the package `gossip`. Another
project has that name on PyPI, and of two installed packages of one name the later overwrites the
earlier, file by file. So the wheel has it as `docstore.gossip`, and its imports say so
(docs/decisions/0037-wheel-has-gossip-inside.md).

The man page and the completion scripts are made of what was built, so they cannot differ from it.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

_IMPORT = re.compile(r"^( *from )gossip(?=[. ])", re.MULTILINE)
_COMMAND = re.compile(r"\bpython -m gossip\b")


class BuildWithGossipInside(build_py):
    """Copies all modules, moves those of `gossip` into docstore, and writes the man page."""

    def run(self) -> None:
        """Build."""
        super().run()
        if not self.editable_mode:
            built = Path(self.build_lib)
            move_inside(built)
            self.distribution.data_files = manual_of(built, built.parent / "manual")


class WheelWithGossipInside(bdist_wheel):
    """Does not claim the name `gossip` in its metadata either."""

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        """Write the metadata."""
        super().egg2dist(egginfo_path, distinfo_path)
        names = Path(distinfo_path) / "top_level.txt"
        kept = [name for name in names.read_text("utf-8").split() if name != "gossip"]
        names.write_text("\n".join(kept) + "\n", "utf-8")


def move_inside(built: Path) -> None:
    """Move `gossip` into docstore, and let everybody import it from there."""
    inside = built / "docstore" / "gossip"
    shutil.rmtree(inside, ignore_errors=True)
    (built / "gossip").rename(inside)
    for file in sorted(built.rglob("*.py")):
        text = file.read_text("utf-8")
        moved = _IMPORT.sub(r"\1docstore.gossip", text)
        if inside in file.parents:
            moved = _COMMAND.sub("python -m docstore.gossip", moved)
        if missed := sorted(set(imported(moved)) & {"gossip"}):
            raise RuntimeError(f"{file}: an import of {missed} that setup.py cannot move")
        if moved != text:
            file.write_text(moved, "utf-8")


def manual_of(built: Path, directory: Path) -> list[tuple[str, list[str]]]:
    """Write the man page and the completions; return the folders of a prefix and their files."""
    shutil.rmtree(directory, ignore_errors=True)
    command = [sys.executable, "-m", "docstore.cli.manual", str(directory.resolve())]
    # Typer may lie where only this process looks: pip builds in an environment of its own.
    path = os.pathsep.join([str(built.resolve()), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": path}
    subprocess.run(command, cwd=built, env=environment, check=True)  # noqa: S603
    files = sorted(file for file in directory.rglob("*") if file.is_file())
    return [(str(file.parent.relative_to(directory)), [str(file)]) for file in files]


def imported(text: str) -> Iterator[str]:
    """Yield the top-level packages that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]


if __name__ == "__main__":
    setup(cmdclass={"bdist_wheel": WheelWithGossipInside, "build_py": BuildWithGossipInside})
