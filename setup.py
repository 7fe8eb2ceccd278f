"""How the wheel is built; what is declared stands in pyproject.toml.

In the repository, and in an editable installation, membership is the package `gossip`. Another
project has that name on PyPI, and of two installed packages of one name the later overwrites the
earlier, file by file. So the wheel has it as `docstore.gossip`, and its imports say so
(docs/decisions/0037-wheel-has-gossip-inside.md).
"""

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

_IMPORT = re.compile(r"^( *from )gossip(?=[. ])", re.MULTILINE)
_COMMAND = re.compile(r"\bpython -m gossip\b")


class BuildWithGossipInside(build_py):
    """Copies all modules, and moves those of `gossip` into docstore."""

    def run(self) -> None:
        """Build."""
        super().run()
        if not self.editable_mode:
            move_inside(Path(self.build_lib))


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


def imported(text: str) -> Iterator[str]:
    """Yield the top-level packages that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]


if __name__ == "__main__":
    setup(cmdclass={"bdist_wheel": WheelWithGossipInside, "build_py": BuildWithGossipInside})
