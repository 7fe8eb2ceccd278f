"""Jobs send the token in their environment to each node."""

from hashlib import sha256
from pathlib import Path

import pytest

from docstore.client import LocalCluster
from docstore.pipeline.group_client import BadToken, GroupClient, GroupError

RULES = """
[roles.operator]
"/" = "admin"
[users.ann]
tokens = ["{}"]
roles = ["operator"]
"""


def test_the_token_of_the_environment_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, token = tmp_path / "access.toml", tmp_path / "token"
    rules.write_text(RULES.format(sha256(b"ann-token").hexdigest()))
    token.write_text("ann-token\n")
    with LocalCluster(1, tmp_path, ("--access-file", str(rules))) as cluster:
        group = GroupClient(cluster.urls)
        with pytest.raises(GroupError, match="401"):
            group.plan()
        monkeypatch.setenv("DOCSTORE_TOKEN", "ann-token")
        assert group.plan()["cut"]
        monkeypatch.setenv("DOCSTORE_TOKEN", "wrong-token")
        with pytest.raises(GroupError, match="401") as refused:
            group.plan()
        assert "wrong-token" not in str(refused.value)
        monkeypatch.delenv("DOCSTORE_TOKEN")
        monkeypatch.setenv("DOCSTORE_TOKEN_FILE", str(token))
        assert group.plan()["cut"]
        token.write_text("two words")
        with pytest.raises(BadToken) as bad:
            group.plan()
        assert "two words" not in str(bad.value)
