from pathlib import Path

from gateway_admin.supervisor.credentials import api_key_path, keep_secret_key, load_credentials


def test_secrets_are_made_once_and_kept_from_others(tmp_path: Path) -> None:
    first = load_credentials(tmp_path, lambda: "key-1")
    assert load_credentials(tmp_path, lambda: "key-2") == first
    assert first.api_key == "key-1" == api_key_path(tmp_path).read_text().strip()
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "secrets").iterdir()} == {0o600}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700


def test_an_empty_file_is_filled(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    path.write_text("\n")
    keep_secret_key(path)
    secret = path.read_text()
    assert len(secret) > 50
    keep_secret_key(path)
    assert path.read_text() == secret
