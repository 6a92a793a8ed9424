"""Counts of spans: counting texts, the count file, and adding up counts of many slices.

Input is documents and a split pattern. Output is sorted spans with their counts, in files or as
`SpanCounts`, which is the input of learning.
"""
