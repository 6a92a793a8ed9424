"""All code that imports Ray: sessions, the executor, node checks, metrics, job submission.

The input is tasks of the job. The output is their results. No other package imports Ray.
"""
