import io

from gateway_admin.supervisor.console import Console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("no terminal behind it")


def test_output_that_is_no_terminal_gets_plain_lines() -> None:
    out = io.StringIO()
    console = Console(out)
    console.status("loading")
    console.status("loading")
    console.say("up")
    assert "\x1b" not in out.getvalue()
    assert [line.split("] ")[1] for line in out.getvalue().splitlines()] == ["loading", "up"]


def test_no_color_is_respected() -> None:
    out = Terminal()
    Console(out, no_color=True).say("up")
    assert "\x1b" not in out.getvalue()


def test_a_terminal_shows_progress_in_place() -> None:
    out = Terminal()
    console = Console(out)
    console.status("loading")
    console.say("up")
    assert out.getvalue().count("\n") == 1


def test_what_may_hold_secrets_is_not_logged() -> None:
    log = io.StringIO()
    console = Console(io.StringIO())
    console.log_to(log)
    console.say("up")
    console.show("password: hush")
    assert "up" in log.getvalue()
    assert "hush" not in log.getvalue()


def test_a_terminal_that_went_away_is_no_failure() -> None:
    out = io.StringIO()
    console = Console(out)
    out.close()
    console.say("up")
    console.show("more")
