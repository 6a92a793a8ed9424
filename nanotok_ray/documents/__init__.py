"""Batches of documents as arrays: all bytes back to back, and where each document starts.

Input is texts of Python, numpy and Arrow. Output is arrays that the compiled core reads without a
copy. The package reads no file.
"""
