"""The job, independent of Ray: plan, count, learn, tokenize, verify and publish, with its reports.

Input is a recipe and an executor that runs tasks. Output is a finished output folder, a journal
and a summary. State lives in storage alone: the same job started again resumes.

The functions of `nanotok_ray.api` are the way into it. Other packages import its modules.
"""

from nanotok_ray import lazy_attributes

__getattr__ = lazy_attributes(__name__, {"journal": "read_journal"})
