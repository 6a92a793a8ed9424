"""The job without Ray: plan, count, learn, tokenize, verify, publish; and what is reported of it.

Input is a recipe and an executor that runs tasks. Output is a finished output folder, a journal
and a summary. State lives in storage alone: the same job started again resumes.
"""
