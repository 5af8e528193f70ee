"""The page of `drill --scenario wipe`."""

from collections.abc import Iterator, Mapping

from heliograph.drill.report import Figure, Plot, Report, Table
from heliograph.drill.wipe import A, B, C, TopicAccount, WipeResult
from heliograph.drill.wipe_samples import rates


def wipe_report(result: WipeResult, versions: Mapping[str, str]) -> Report:
    """Return what to show and keep of the scenario."""
    lost = sum(account.difference.lost for account in result.accounts)
    repeated = sum(account.difference.repeated for account in result.accounts)
    recovered = sum(account.copy.records for account in result.accounts)
    produced = sum(account.produced for account in result.accounts)
    rto = result.recovered_at - result.lost_at
    marks = (
        (result.lost_at, f"{B} is wiped"),
        (result.attached_at, f"{C} is attached"),
        (result.recovered_at, "all is back"),
    )
    return Report(
        title=f"Disaster drill: {B} is wiped, {C} recovers from {A}",
        story=(
            f"{A} and {B} mirrored each other while logs were written to both. Then {B} was stopped and "
            f"all its data deleted. A new, empty {C} was attached to {A} and got everything back, also what "
            f"had been written to {B} only: the topic ClusterA.ClusterB.TomcatServerLogs. All of it ran on one "
            "machine, with one real Kafka broker for each cluster."
        ),
        ok=result.ok,
        verdict=(
            f"Every one of the {produced:,} records is on {C}, once, in order and unchanged."
            if result.ok
            else f"NOT every record is accounted for: {lost:,} lost, {repeated:,} repeated of {produced:,}."
        ),
        began=result.began,
        seconds=result.seconds,
        figures=(
            Figure("RPO", f"{lost:,}", "records lost with the cluster"),
            Figure("RTO", f"{rto:.1f} s", f"from the loss of {B} until {C} held all"),
            Figure("Recovered", f"{recovered:,}", f"of {produced:,} records produced"),
            Figure("Repeated", f"{repeated:,}", "records found twice"),
        ),
        steps=result.steps,
        plots=(
            Plot("Records held by each cluster", "both topics", result.held, marks),
            Plot(
                "Records arriving at each cluster",
                "records a second",
                tuple(map(rates, result.held)),
                marks,
            ),
        ),
        tables=(
            Table(
                f"What was written, and what {C} holds",
                (
                    "written to",
                    "recovered as",
                    "produced",
                    "recovered",
                    "lost",
                    "repeated",
                    "fingerprint",
                ),
                tuple(map(_row, result.accounts)),
            ),
        ),
        notes=tuple(_notes(result)),
        measured={
            "rpo_records": lost,
            "rto_seconds": round(rto, 3),
            "produced": produced,
            "recovered": recovered,
            "lost": lost,
            "repeated": repeated,
            "behind_when_the_load_ended": result.behind,
            "caught_up_after_seconds": round(result.caught_up_after, 3),
            "verified": result.verified.compared,
        },
        versions=versions,
    )


def _row(account: TopicAccount) -> tuple[str | int, ...]:
    difference = account.difference
    return (
        account.topic,
        account.recovered,
        account.produced,
        account.copy.records,
        difference.lost,
        difference.repeated,
        _prints(account.original.fingerprint, account.copy.fingerprint),
    )


def _prints(written: str, recovered: str) -> str:
    return f"{written}, both" if written == recovered else f"{written}, not {recovered}"


def _notes(result: WipeResult) -> Iterator[str]:
    yield f"heliograph verify {A} -> {C}: {result.verified.summary()}."
    if result.behind:
        yield (
            f"When the load ended, {result.behind:,} records of {B} were not yet on {A}; "
            f"{result.caught_up_after:.1f} s later all were. That is what a loss right then would have cost."
        )
    else:
        yield f"When the load ended, every record of {B} was on {A} already."
    yield "A fingerprint is a digest of every record's key, value, headers and timestamp, in order, by partition."
    yield from result.verified.lines()
