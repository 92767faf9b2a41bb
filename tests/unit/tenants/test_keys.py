"""The form of API keys."""

import hashlib

import pytest

from tenants.keys import LEAD, describe_key, key_digest, make_key


def test_a_new_key_has_lead_prefix_and_secret() -> None:
    key = make_key()

    lead, prefix, secret = key.plaintext.rsplit("-", 2)
    assert f"{lead}-" == LEAD
    assert (len(prefix), len(secret)) == (8, 40)
    assert key.prefix == prefix


def test_two_keys_differ() -> None:
    assert make_key().plaintext != make_key().plaintext


def test_the_digest_is_sha256_of_the_whole_key() -> None:
    key = make_key()

    assert key.digest == hashlib.sha256(key.plaintext.encode()).hexdigest()
    assert key_digest(key.plaintext).hex() == key.digest


def test_the_text_of_a_key_does_not_show_in_its_repr() -> None:
    key = make_key()

    assert key.plaintext not in repr(key)


def test_a_given_key_is_taken_apart_as_it_was_made() -> None:
    key = make_key()

    assert describe_key(key.plaintext) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sk-sluice-",
        "sk-other-abcdefgh-" + "a" * 40,
        "sk-sluice-abcdefg-" + "a" * 40,
        "sk-sluice-abcdefgh-" + "a" * 39,
        "sk-sluice-abcdefgh-" + "ä" * 40,
        "sk-sluice-abcdefgh-" + "-" * 40,
    ],
)
def test_what_is_not_a_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="A key is"):
        describe_key(text)


def test_any_text_has_a_digest() -> None:
    assert len(key_digest("\ud800")) == 32
