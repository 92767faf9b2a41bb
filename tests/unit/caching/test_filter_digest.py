from caching.filters.digest import Digester


def test_digests_are_the_same_in_every_process() -> None:
    # Stored in the store's filters: a change of these makes all of them worthless.
    assert Digester("prompts")(b"prompt_1").hex() == "be3765511ed3ec5b18992192eea3b195"
    assert Digester("files")(b"prompt_1") != Digester("prompts")(b"prompt_1")
