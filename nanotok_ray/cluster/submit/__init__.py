"""Submits a recipe to the job server of a cluster, and follows the job to its end.

The input is a recipe and an address. The output is the log of the job and an exit code.
"""
