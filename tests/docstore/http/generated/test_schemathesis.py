"""schemathesis sends requests that the description allows: no node fails or refuses them.

Statuses that depend on stored documents (404, 409, 412, ...) are accepted, and so are 503 and 504
of a busy group. 400, 406, 415, 422 and 500 are failures, and so is a body that the description
does not describe.
"""

from pathlib import Path

import pytest

from tests.docstore.http.generated.conftest import in_venv, run

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
VERSION = "schemathesis==4.32.5"
SECONDS = 300
EXPECTED = "304 401 403 404 405 409 410 412 416 421 425 428 503 504".split()
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_schema_conformance", "positive_data_acceptance",
)  # fmt: skip
LEFT_OUT = (
    "^delete\\.core\\.management$",  # Ends the node.
    "^patch\\.core\\.node\\.groups",  # Changes the group.
    "^get\\.core\\.query\\.tasks$",  # Needs a cursor, which only a node makes.
    "^post\\..*subscriptions$",  # Needs a host that the operator allows.
    "^(put|post)\\.core_snapshots",  # Names that are also times are refused.
    "^put\\.core_factories",  # Its id follows from the path that is declared.
    "(core_spark_quotas|core_spark_quotas\\.id)$",  # Its schema is closed: a filter names no other.
    "^delete\\.core_factories",  # The other requests need what is declared.
    "^patch\\.core\\.leases\\.id$",  # A KeepAliveRequest has no conditions, and no key.
    "^head\\.",  # As GET.
    r"^\w+\.core.*\.(available|config|stats|template|synchronization|explain|versions)$",
)


def test_requests_that_the_description_allows_are_accepted(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binaries = in_venv("schemathesis", VERSION)
    ok = ", ".join(f'"{each}"' for each in ("2xx", *EXPECTED))
    (tmp_path / "schemathesis.toml").write_text(
        "[generation]\nallow-x00 = false\n"
        f"[checks.positive_data_acceptance]\nexpected-statuses = [{ok}]\n"
        f'[checks.not_a_server_error]\nexpected-statuses = [{ok}, "4xx"]\n'
    )
    monkeypatch.setenv("SCHEMATHESIS_HOOKS", "hooks")
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("DOCSTORE_URL", urls[0])
    run(
        binaries / "schemathesis", "run", f"{urls[0]}/core/openapi.json", "--workers", "2",
        "--checks", ",".join(CHECKS), "--mode", "positive", "--phases", "fuzzing",
        "--max-time", str(SECONDS), "--continue-on-failure", "--no-shrink", "--no-color",
        "--generation-database", "none", "--suppress-health-check", "all",
        "--request-timeout", "60", "--exclude-operation-id-regex", "|".join(LEFT_OUT),
        where=tmp_path, timeout_s=4 * SECONDS,
    )  # fmt: skip
