"""The rules of bulk jobs: files of requests that are worked off when engines have time."""
