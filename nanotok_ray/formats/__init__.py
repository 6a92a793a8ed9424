"""Layouts of the files in an output: manifest, records, document index, document ids, images.

Input and output are bytes and numpy arrays. The package needs numpy only and opens no file.
"""
