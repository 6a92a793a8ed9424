"""HTML pages and pictures: the report of a run, documents with their masks, plots of tokenizers.

The input is the files of an output, or documents. The output is single files that need no network
and no script. The package makes no decisions, and its failures never fail a job.
"""
