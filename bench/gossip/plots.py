"""Plots as SVG, written by hand: a few lines over two axes need no library."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from bench.gossip.figure import Plot

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 360, 60, 50, 40
FONT = 'font-family="sans-serif" font-size="12"'
COLOURS = ("#1b6ca8", "#d1495b", "#2e933c", "#edae49", "#6c4ab6", "#444444")


def write(plot: Plot, folder: Path) -> Path:
    """Write the plot as an SVG file; return where."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{plot.name}.svg"
    path.write_text(_svg(plot))
    return path


def _svg(plot: Plot) -> str:
    points = [point for series in plot.series for point in series.points]
    x_max = max(x for x, _ in points) or 1.0
    y_max = max(y for _, y in points) * 1.05 or 1.0

    def place(x: float, y: float) -> str:
        across = LEFT + x / x_max * (WIDTH - LEFT - 20)
        down = HEIGHT - BOTTOM - y / y_max * (HEIGHT - BOTTOM - TOP)
        return f"{across:.1f},{down:.1f}"

    axes = f"{place(0, y_max)} {place(0, 0)} {place(x_max, 0)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(plot.title)}</text>',
        f'<polyline fill="none" stroke="#999" points="{axes}"/>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}">{escape(plot.x)}</text>',
        f'<text x="8" y="{TOP - 6}">{escape(plot.y)}</text>',
    ]
    for part in (0.25, 0.5, 0.75, 1.0):
        across, down = place(part * x_max, 0).split(",")
        parts.append(f'<text x="{across}" y="{HEIGHT - BOTTOM + 18}">{part * x_max:.4g}</text>')
        across, down = place(0, part * y_max).split(",")
        parts.append(f'<text x="8" y="{down}">{part * y_max:.4g}</text>')
    for index, series in enumerate(plot.series):
        colour = COLOURS[index % len(COLOURS)]
        line = " ".join(place(x, y) for x, y in series.points)
        dots = [f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="2.5" fill="{colour}"/>'
                for p in line.split()]  # fmt: skip
        name = f'<text x="{WIDTH - 170}" y="{TOP + 16 * index}" fill="{colour}">'
        parts += [
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{line}"/>',
            *dots,
            name + f"{escape(series.name)}</text>",
        ]
    return "\n".join([*parts, "</svg>", ""])
