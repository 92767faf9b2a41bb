from gateway_admin.supervisor.backoff import Backoff


def test_waits_double_from_a_fifth_of_a_second_to_ten_seconds() -> None:
    backoff = Backoff()
    assert [backoff.next_s(1.0) for _ in range(8)] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_a_life_of_thirty_seconds_starts_over() -> None:
    backoff = Backoff()
    for _ in range(6):
        backoff.next_s(1.0)
    assert backoff.next_s(30.0) == 0.2
    assert backoff.next_s(29.9) == 0.4


def test_a_process_that_dies_for_days_still_gets_a_number() -> None:
    backoff = Backoff(failures=10**6)
    assert backoff.next_s(0.0) == 10.0
