from heliograph.spark.cores import Cores, describe_missed, describe_shortage


def test_too_few_cores_are_a_sentence_with_both_numbers() -> None:
    assert describe_shortage(Cores(4, 0), 4) is None
    assert "4 cores for 6 tasks" in str(describe_shortage(Cores(4, 0), 6))
    assert "1 cores free for 2 tasks" in describe_missed(2, Cores(4, 1))
