"""The flags of `docstore serve`: each is explained, and an invalid one is a one-line error."""

import re

import pytest

from docstore.cli.serve import serve
from docstore.cli.serve_flags import HELP, parser
from docstore.config import KEYS, parse

BY_KEY_OF_STREAMS = {
    "streams_fail_back_s": lambda streams: streams.transfers.fail_back_s,
    "streams_gather_s": lambda streams: streams.elections.gather_s,
    "streams_confirm_s": lambda streams: streams.elections.confirm_s,
    "streams_tail_mb": lambda streams: streams.memory.tails_bytes >> 20,
    "streams_retention_check_s": lambda streams: streams.upkeep.retention_s,
}


def test_every_setting_is_explained() -> None:
    assert list(HELP) == list(KEYS)
    shown = re.sub(r"\s+", " ", parser().format_help())
    for key, meaning in HELP.items():
        assert f"--{key.replace('_', '-')} " in shown
        assert meaning in shown


def test_the_defaults_that_the_help_names_are_those_of_a_node() -> None:
    config = parse({"data": "d"})
    named = {key: re.search(r"\(([0-9.]+)[;)]", meaning) for key, meaning in HELP.items()}
    numbers = {key: float(found[1]) for key, found in named.items() if found}
    assert len(numbers) > 15
    for key, number in numbers.items():
        if key in BY_KEY_OF_STREAMS:
            default = BY_KEY_OF_STREAMS[key](config.streams)
        else:
            default = getattr(config, key, None) or getattr(config.limits, key, None)
            default = default or getattr(config.logging, key, None)
            default = default or getattr(config.callbacks, key.removeprefix("callback_"))
        assert default == number, key


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--colour", "red"], "unrecognized arguments: --colour red"),
        (["--zone"], "--zone"),
        (["--processes", "x"], "--processes"),
        (
            ["--data", "d", "--processes", "0"],
            "processes: must be a whole number from 1 to 64; got 0",
        ),
    ],
)
def test_wrong_flags_are_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    assert serve(arguments) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("docstore: ")
    assert error in line
