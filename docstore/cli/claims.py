"""What the demo claims, and whether it turned out true."""

from dataclasses import dataclass, field
from typing import Any

from rich.table import Table


@dataclass(slots=True)
class DemoClaims:
    """What the demo says, whether it turned out true, and what was seen."""

    rows: list[tuple[str, bool, str]] = field(default_factory=list)

    def check(self, claim: str, holds: bool, seen: str) -> None:
        """Note one claim."""
        self.rows.append((claim, holds, seen))

    @property
    def hold(self) -> bool:
        """Say whether everything that was shown is true."""
        return all(holds for _, holds, _ in self.rows)

    def page(self) -> dict[str, Any]:
        """Return the claims for programs."""
        rows = [{"claim": what, "holds": holds, "seen": seen} for what, holds, seen in self.rows]
        return {"holds": self.hold, "claims": rows}

    def table(self) -> Table:
        """Return the claims as a table."""
        table = Table("", "claim", "seen", title="what was shown")
        for claim, holds, seen in self.rows:
            table.add_row("[green]✓[/]" if holds else "[red]✗[/]", claim, seen)
        return table
