"""The check of the clock: the time that a store gave a file beside the local one. Opens nothing."""

from nanotok_ray.doctor.finding import Finding

MOST_SECONDS_APART = 60.0


def clock_finding(where: str, mtime_ns: int | None, *, before: float, after: float) -> Finding:
    """Compare the time of a file with the local clock around its writing (seconds since 1970)."""
    name = "clock"
    if mtime_ns is None:
        return Finding(name=name, status="ok", found=f"{where}: the store tells no time of a file")
    written = mtime_ns / 1e9
    apart = before - written if written < before else max(0.0, written - after)
    side = "ahead of" if written < before else "behind"
    if apart > MOST_SECONDS_APART:
        return Finding(
            name=name,
            status="warn",
            found=f"{where}: this machine is {apart:,.0f} s {side} the store: tokens may count as "
            "expired, and times in journals mislead (leases compare no clocks)",
            advice="synchronise clocks (chrony, systemd-timesyncd)",
        )
    return Finding(
        name=name, status="ok", found=f"{where}: within {max(1.0, apart):.0f} s of the store"
    )
