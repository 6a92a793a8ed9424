"""The job, independent of Ray: plan, count, learn, tokenize, verify and publish, with its reports.

Input is a recipe and an executor that runs tasks. Output is a finished output folder, a journal
and a summary. State lives in storage alone: the same job started again resumes.
"""

from typing import TYPE_CHECKING

from nanotok_ray import lazy_attributes

if TYPE_CHECKING:
    from nanotok_ray.job.bad_documents import give_up_after
    from nanotok_ray.job.counting import Training, training_of
    from nanotok_ray.job.events import (
        Activity,
        Advanced,
        AttemptFailed,
        ClusterSize,
        Event,
        Note,
        OnEvent,
        Planned,
        PlannedStage,
        SliceEnded,
        StageEnded,
        StageStarted,
        ignore,
    )
    from nanotok_ray.job.executor import Executor, Runtime
    from nanotok_ray.job.exporting import ExportResult
    from nanotok_ray.job.forecast import Forecast, StageProgress, TimeLeft
    from nanotok_ray.job.holder import Holder
    from nanotok_ray.job.job_plan import JobPlan
    from nanotok_ray.job.journal import (
        DONE,
        FAILED,
        INTERRUPTED,
        JOURNAL_FOLDER,
        JOURNAL_FORMAT,
        TERMINATED,
        FailedAttempt,
        JournalledSlice,
        RunEnd,
        RunHead,
        RunJournal,
        Stage,
        TimedNote,
        read_journal,
        row_of,
        runs_in,
        segment_name,
    )
    from nanotok_ray.job.journal_writer import Journal
    from nanotok_ray.job.journaling import Journaling, StageTimes
    from nanotok_ray.job.lease import (
        EXPIRY_SECONDS,
        RENEW_SECONDS,
        Clock,
        Lease,
        lease_in_force,
        lease_name,
        lease_numbers,
        leased,
    )
    from nanotok_ray.job.local import LocalExecutor
    from nanotok_ray.job.pipeline import Start, run_job
    from nanotok_ray.job.plan_text import STAGES, stage_line
    from nanotok_ray.job.planning import measured_rates, plan_job
    from nanotok_ray.job.reducing import WeightedCounts, names_in_use
    from nanotok_ray.job.runner import TaskListener, run_tasks
    from nanotok_ray.job.stage import TaskRules, run_stage
    from nanotok_ray.job.status import FINISHED, RUNNING, WELL, RunStatus, run_status
    from nanotok_ray.job.summary import Summary, read_summary
    from nanotok_ray.job.task import (
        AttemptResult,
        Cause,
        Failure,
        Node,
        RetryPolicy,
        SharedFolder,
        Task,
        TaskResult,
    )
    from nanotok_ray.job.termination import Terminated, interruptible, terminable
    from nanotok_ray.job.tokenize import check_special_tokens, shard_settings
    from nanotok_ray.job.training import learn_tokenizer
    from nanotok_ray.job.work import TokenizeWork, count_work, tokenize_work
    from nanotok_ray.job.worker_pool import (
        Call,
        ClusterResources,
        Reference,
        Request,
        call_failure,
        run_attempt,
    )
else:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "bad_documents": "give_up_after",
            "counting": "Training training_of",
            "job_plan": "JobPlan",
            "events": (
                "Activity Advanced AttemptFailed ClusterSize Event Note OnEvent Planned "
                "PlannedStage SliceEnded StageEnded StageStarted ignore"
            ),
            "executor": "Executor Runtime",
            "exporting": "ExportResult",
            "forecast": "Forecast StageProgress TimeLeft",
            "pipeline": "Start run_job",
            "holder": "Holder",
            "journal": (
                "DONE FAILED FailedAttempt TimedNote INTERRUPTED JOURNAL_FOLDER JOURNAL_FORMAT "
                "JournalledSlice RunEnd RunHead RunJournal Stage TERMINATED read_journal row_of "
                "runs_in segment_name"
            ),
            "journal_writer": "Journal",
            "journaling": "Journaling StageTimes",
            "lease": (
                "Clock EXPIRY_SECONDS Lease RENEW_SECONDS lease_in_force lease_name lease_numbers "
                "leased"
            ),
            "local": "LocalExecutor",
            "plan_text": "STAGES stage_line",
            "planning": "measured_rates plan_job",
            "reducing": "WeightedCounts names_in_use",
            "runner": "TaskListener run_tasks",
            "stage": "TaskRules run_stage",
            "status": "FINISHED RUNNING RunStatus WELL run_status",
            "summary": "Summary read_summary",
            "task": "AttemptResult Cause Failure Node RetryPolicy SharedFolder Task TaskResult",
            "termination": "Terminated interruptible terminable",
            "tokenize": "check_special_tokens shard_settings",
            "training": "learn_tokenizer",
            "work": "TokenizeWork count_work tokenize_work",
            "worker_pool": ("Call ClusterResources Reference Request call_failure run_attempt"),
        },
    )

__all__ = [
    "DONE",
    "EXPIRY_SECONDS",
    "FAILED",
    "FINISHED",
    "INTERRUPTED",
    "JOURNAL_FOLDER",
    "JOURNAL_FORMAT",
    "RENEW_SECONDS",
    "RUNNING",
    "STAGES",
    "TERMINATED",
    "WELL",
    "Activity",
    "Advanced",
    "AttemptFailed",
    "AttemptResult",
    "Call",
    "Cause",
    "Clock",
    "ClusterResources",
    "ClusterSize",
    "Event",
    "Executor",
    "ExportResult",
    "FailedAttempt",
    "Failure",
    "Forecast",
    "Holder",
    "JobPlan",
    "Journal",
    "Journaling",
    "JournalledSlice",
    "Lease",
    "LocalExecutor",
    "Node",
    "Note",
    "OnEvent",
    "Planned",
    "PlannedStage",
    "Reference",
    "Request",
    "RetryPolicy",
    "RunEnd",
    "RunHead",
    "RunJournal",
    "RunStatus",
    "Runtime",
    "SharedFolder",
    "SliceEnded",
    "Stage",
    "StageEnded",
    "StageProgress",
    "StageStarted",
    "StageTimes",
    "Start",
    "Summary",
    "Task",
    "TaskListener",
    "TaskResult",
    "TaskRules",
    "Terminated",
    "TimeLeft",
    "TimedNote",
    "TokenizeWork",
    "Training",
    "WeightedCounts",
    "call_failure",
    "check_special_tokens",
    "count_work",
    "give_up_after",
    "ignore",
    "interruptible",
    "learn_tokenizer",
    "lease_in_force",
    "lease_name",
    "lease_numbers",
    "leased",
    "measured_rates",
    "names_in_use",
    "plan_job",
    "read_journal",
    "read_summary",
    "row_of",
    "run_attempt",
    "run_job",
    "run_stage",
    "run_status",
    "run_tasks",
    "runs_in",
    "segment_name",
    "shard_settings",
    "stage_line",
    "terminable",
    "tokenize_work",
    "training_of",
]
