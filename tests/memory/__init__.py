"""Stores in memory that keep the contracts of `docstore/storage`, for machines under test."""
