"""`docstore doctor`: faults and risks of a group, or of a stopped node's data directory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from docstore.cli.diagnosis.finding import WRONG, Finding
from docstore.cli.terminal import DEFAULT_URLS, AsJson, Urls, console, failed, show, talk
from docstore.model.words import count

PANEL = "Nodes"
INDENT = len("wrong  ")
app = typer.Typer()


@app.command(rich_help_panel=PANEL)
def doctor(
    url: Urls = DEFAULT_URLS,
    data: Annotated[
        Path | None, typer.Option(help="Examine this data directory of a stopped node instead.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Report faults and risks, with what to do about each; exit code 1 if there is a fault."""
    looked, findings = _of_group(url) if data is None else _of_directory(data)
    is_well = all(each.grade is not WRONG for each in findings)
    if as_json:
        show({"well": is_well, "looked": looked, "findings": [_page(each) for each in findings]})
    else:
        _tell(looked, findings)
    raise typer.Exit(0 if is_well else 1)


def _of_group(urls: list[str]) -> tuple[str, list[Finding]]:
    from docstore.cli.diagnosis.examine import examine
    from docstore.cli.looking import look

    seen = talk(urls, look)
    nodes = count(len(seen.members), "node")
    return f"{nodes}, {count(len(seen.selector['table']), 'slot')}", examine(seen)


def _of_directory(data: Path) -> tuple[str, list[Finding]]:
    from docstore.cli.diagnosis.directory import examine
    from docstore.cli.directory import look

    try:
        return str(data), examine(look(data))
    except OSError as error:
        raise failed(error) from None


def _page(finding: Finding) -> dict[str, Any]:
    return {
        "grade": finding.grade.value, "where": finding.where, "what": finding.what,
        "do": finding.todo, "see": f"docs/{finding.see}",
    }  # fmt: skip


def _tell(looked: str, findings: Sequence[Finding]) -> None:
    from rich.markup import escape
    from rich.padding import Padding

    out = console(is_wide=True)
    for each in findings:
        colour = "red" if each.grade is WRONG else "yellow"
        grade = f"[{colour}]{each.grade.value:{INDENT}}[/{colour}]"
        where = f"[bold]{escape(each.where)}[/bold]: " if each.where else ""
        out.print(f"{grade}{where}{escape(each.what)}")
        for line in (escape(each.todo), f"[dim]docs/{each.see}[/dim]"):
            out.print(Padding(line, (0, 0, 0, INDENT), expand=False))
    wrong = sum(each.grade is WRONG for each in findings)
    if findings:
        out.print(f"{looked}: {wrong} wrong, {len(findings) - wrong} at risk")
    else:
        out.print(f"{looked}: no faults, no risks")
