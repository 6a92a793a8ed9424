"""Everything that imports Ray: sessions, the executor, node checks, metrics, job submission.

Input is tasks of the job. Output is their results. No other package imports Ray.
"""
