"""Bulk jobs (the Batch API): files of requests that are worked off when engines have time.

A bulk process is a gateway whose clients are files: it holds the same runtime, and takes each line of a slice through
the same journey (``gateway/pipeline.py``) as a request that came by HTTP, as class P2.
"""
