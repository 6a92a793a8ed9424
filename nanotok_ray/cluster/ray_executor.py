"""Jobs on Ray: the running session, the cluster of RAY_ADDRESS, or a local one."""

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager

from nanotok_ray.cluster.learner_task import learn_in_task
from nanotok_ray.cluster.metrics import Metrics
from nanotok_ray.cluster.ray_calls import RayCalls
from nanotok_ray.cluster.session import check_address, ray_session
from nanotok_ray.job.counting import CountedSlices
from nanotok_ray.job.engine import OnFailure, run_tasks
from nanotok_ray.job.events import OnEvent
from nanotok_ray.job.task import Ended, Patience, SharedFolder, Task
from nanotok_ray.job.training import Training
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer


class RayExecutor:
    """Runs tasks on Ray; the methods are those of `Executor`."""

    def check(self) -> None:
        """Check that the cluster of RAY_ADDRESS can be joined; see `session.check_address`."""
        check_address()

    def session(
        self, *, workers: int | None = None, shared: Collection[SharedFolder] = ()
    ) -> AbstractContextManager[None]:
        """Return a Ray session; see `session.ray_session`."""
        return ray_session(workers=workers, shared=shared)

    def run(
        self,
        tasks: Sequence[Task],
        *,
        patience: Patience | None = None,
        on_note: Callable[[str], None] | None = None,
        on_failure: OnFailure = lambda *_: None,
        on_look: Callable[[int], None] = lambda _: None,
    ) -> Iterator[Ended]:
        """Run tasks on the Ray session that is open; see `engine.run_tasks`."""
        return run_tasks(
            tasks,
            calls_with=RayCalls,
            patience=patience,
            on_note=on_note,
            on_failure=on_failure,
            on_look=on_look,
        )

    def learn(
        self, training: Training, counted: CountedSlices, out: Folder, *, on_event: OnEvent
    ) -> Tokenizer:
        """Run the learner as a task of its own; see `learner_task.learn_in_task`."""
        return learn_in_task(training, counted, out, on_event=on_event)

    def metrics(self) -> OnEvent:
        """Return a new listener that hands the metrics of one run to Ray."""
        return Metrics()

    def driver(self) -> tuple[str, str]:
        """Return cluster and job of this driver; empty where Ray is not there or does not say."""
        ray = sys.modules.get("ray")  # importing it is for the session, which sets its environment
        try:
            if ray is None or not ray.is_initialized():
                return "", ""
            from ray._private.worker import global_worker  # noqa: PLC0415 - as above

            return str(global_worker.node.cluster_id.hex()), ray.get_runtime_context().get_job_id()
        except Exception:  # Ray does not say, for whatever reason
            return "", ""

    def is_dead_driver(self, job: str) -> bool:
        """Return whether Ray lists the driver of a job as dead."""
        try:
            from ray._private.state import state  # noqa: PLC0415 - as above

            return any(row["JobID"] == job and row["IsDead"] for row in state.job_table())
        except Exception:  # as above
            return False
