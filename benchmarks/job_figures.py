"""The results of a job's benchmark: medians, ratios and shares, each with its goal."""

from typing import Any

from fresh import Figures, median, median_ratio

Runs = dict[str, list[Figures]]

CORES = {"floor": 1, "alone": 1, "two alone": 2, "job 1": 1, "job 2": 2}


def compare(runs: Runs, *, largest: int) -> dict[str, Any]:
    """Print and return the results of all runs but datatrove's; `largest`: bytes of a document."""
    size = runs["alone"][0]["text_bytes"]
    assert {each["text_bytes"] for way in runs.values() for each in way} == {size}, "text differs"
    seconds = {name: median(each, "seconds") for name, each in runs.items()}
    rates = {name: size / 1e6 / seconds[name] / CORES[name] for name in CORES}
    cpu = {name: median(each, "cpu") for name, each in runs.items()}
    for name in CORES:
        print(
            f"{name:<10} {seconds[name]:6.1f} s  {rates[name]:6.1f} MB/s per core  "
            f"{cpu[name]:6.1f} s of CPU, {cpu[name] / cpu['floor']:.3f} times the floor's"
        )
    if min(seconds.values()) < 20:  # noqa: PLR2004 - see the goal
        print("under 20 s: too short for figures; take more --bytes")
    return {
        "text_bytes": size,
        "seconds": {name: [round(each["seconds"], 2) for each in runs[name]] for name in runs},
        "cpu_seconds": {name: round(each, 2) for name, each in cpu.items()},
        "megabytes_per_second_and_core": {name: round(rate, 1) for name, rate in rates.items()},
        **_ratios(runs),
        **_shares(runs),
        **_memory(runs, largest),
    }


def _ratios(runs: Runs) -> dict[str, Any]:
    """Print the floor and its parts, and the ratios to it and to two processes."""
    parts = {
        name: median([run["parts"] for run in runs["floor"]], name)
        for name in runs["floor"][0]["parts"]
    }
    text = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts.items())
    print(f"floor: {text}; one after the other {sum(parts.values()):.1f} s")
    alone = median_ratio(runs, "alone", "floor")
    job = median_ratio(runs, "job 1", "floor")
    print(f"times the floor: alone {alone:.3f}, job 1 {job:.3f} (goal: at most 1.25)")
    stage = [{"seconds": run["stages"]["tokenize"]} for run in runs["job 2"]]
    whole = median_ratio(runs, "two alone", "job 2")
    run_stage = median_ratio(runs | {"stage": stage}, "two alone", "stage")
    print(f"two alone / job 2: {whole:.3f} (goal: 0.92), / its fan-out alone {run_stage:.3f}")
    return {
        "floor_parts": {name: round(seconds, 2) for name, seconds in parts.items()},
        "floor_sum": round(sum(parts.values()), 2),
        "alone_to_floor": round(alone, 4),
        "job_1_to_floor": round(job, 4),
        "two_alone_to_job_2": round(whole, 4),
        "two_alone_to_fan_out": round(run_stage, 4),
    }


def _shares(runs: Runs) -> dict[str, Any]:
    """Print the shares of work other than tokenizing, in a worker and in the driver."""
    checks = median([{"share": run["checks"] / run["work"]} for run in runs["alone"]], "share")
    records = median([{"share": run["records"] / run["work"]} for run in runs["alone"]], "share")
    print(f"in a worker: checks and read-back {checks:.1%}, records {records:.1%}")
    row: dict[str, Any] = {"proof_share": round(checks, 4), "records_share": round(records, 4)}
    for name in ("job 1", "job 2"):
        verify = median([_driver(run, "verify") for run in runs[name]], "share")
        rest = median([_driver(run, "rest") for run in runs[name]], "share")
        run_stage = 1 - verify - rest
        whole = verify + rest + run_stage * (checks + records)
        print(
            f"{name}: verification by the driver {verify:.1%}, planning, tokenizer, manifest "
            f"{rest:.1%}; with checks and records {whole:.1%} of all time (goal: under 10%); "
            f"Ray's start {median(runs[name], 'start_seconds'):.1f} s, not in it"
        )
        row[name] = {
            "verify_share": round(verify, 4),
            "rest_share": round(rest, 4),
            "verification_records_planning": round(whole, 4),
            "start_seconds": round(median(runs[name], "start_seconds"), 1),
            "stages": runs[name][-1]["stages"],
        }
    return row


def _driver(run: Figures, part: str) -> Figures:
    """Return the shares of a job's time of the driver's verification and other work."""
    verify = run["stages"].get("verify", 0.0)
    rest = run["seconds"] - verify - run["stages"]["tokenize"]
    return {"share": (verify if part == "verify" else rest) / run["seconds"]}


def _memory(runs: Runs, largest: int) -> dict[str, Any]:
    """Print the highest memory of a worker and of the driver."""
    limit = 1_000_000_000 + 4 * largest
    worker = max(run["worker_bytes"] for name in ("job 1", "job 2") for run in runs[name])
    driver = max(run["driver_bytes"] for name in ("job 1", "job 2") for run in runs[name])
    alone = max(run["peak_bytes"] for run in runs["alone"])
    print(
        f"memory: worker {worker / 1e6:.0f} MB, process alone {alone / 1e6:.0f} MB "
        f"(goal: {limit / 1e6:.0f} MB, the largest document has {largest / 1e6:.1f} MB), "
        f"driver {driver / 1e6:.0f} MB",
        flush=True,
    )
    return {
        "largest_document_bytes": largest,
        "worker_bytes": worker,
        "alone_bytes": alone,
        "driver_bytes": driver,
    }


def compare_datatrove(peers: Runs, sizes: tuple[int, int], runs: Runs) -> dict[str, Any]:
    """Print datatrove's rate as the slope of two sizes, and the ratio of job 1 to it."""
    rate, by_cpu = (_slope(peers, sizes, figure) for figure in ("seconds", "cpu"))
    size = runs["job 1"][0]["text_bytes"] / 1e6
    ours, ours_by_cpu = (size / median(runs["job 1"], figure) for figure in ("seconds", "cpu"))
    print(
        f"datatrove: {rate:.2f} MB/s per core from {sizes[0] / 1e6:.1f} to "
        f"{sizes[1] / 1e6:.1f} MB; "
        f"job 1 does {ours / rate:.1f} times that (goal: 60), by CPU seconds "
        f"{ours_by_cpu / by_cpu:.1f} times",
        flush=True,
    )
    return {
        "part_bytes": list(sizes),
        "seconds": {name: [round(each["seconds"], 2) for each in peers[name]] for name in peers},
        "megabytes_per_second_and_core": round(rate, 3),
        "times_per_core": round(ours / rate, 1),
        "times_by_cpu": round(ours_by_cpu / by_cpu, 1),
    }


def _slope(peers: Runs, sizes: tuple[int, int], figure: str) -> float:
    """Return MB/s between two sizes of input."""
    small, large = (median(peers[name], figure) for name in ("small", "large"))
    return (sizes[1] - sizes[0]) / 1e6 / (large - small)
