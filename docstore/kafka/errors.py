"""Kafka's error codes for the problems of a node.

A client retries by the code. So an outcome that is not known gets a code after which producers of
Kafka retry with the same sequence number, and never one that says that nothing was appended.
"""

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from docstore.errors import DocstoreError, TooLarge, Unauthenticated
from docstore.streams.effects import Problem

__all__ = ["ErrorCode", "code_of", "code_of_error"]

_BY_CODE: Mapping[str, ErrorCode] = {
    "not-leader": ErrorCode.not_leader_or_follower,
    "stopping": ErrorCode.not_leader_or_follower,
    "no-leader": ErrorCode.leader_not_available,
    "no-controller": ErrorCode.leader_not_available,
    "undecided": ErrorCode.request_timed_out,
    "too-many-waiting": ErrorCode.request_timed_out,
    "producer-fenced": ErrorCode.invalid_producer_epoch,
    "sequence-gap": ErrorCode.out_of_order_sequence_number,
    "stale-sequence": ErrorCode.duplicate_sequence_number,
    "unknown-producer": ErrorCode.unknown_producer_id,
    "not-enough-replicas": ErrorCode.not_enough_replicas,
    "no-quorum": ErrorCode.not_enough_replicas,
    "partition-full": ErrorCode.kafka_storage_error,
    "offset-evicted": ErrorCode.offset_out_of_range,
    "offset-out-of-range": ErrorCode.offset_out_of_range,
    TooLarge.code: ErrorCode.message_too_large,
    Unauthenticated.code: ErrorCode.sasl_authentication_failed,
}
"""Code of a problem -> Kafka's."""

_BY_STATUS: Mapping[int, ErrorCode] = {
    400: ErrorCode.invalid_request,
    403: ErrorCode.topic_authorization_failed,
    404: ErrorCode.unknown_topic_or_partition,
    409: ErrorCode.invalid_request,
    422: ErrorCode.invalid_request,
    503: ErrorCode.leader_not_available,
    504: ErrorCode.request_timed_out,
}


def code_of(problem: Problem) -> ErrorCode:
    """Return the code for the problem of a partition."""
    if problem.unknown:
        return ErrorCode.request_timed_out
    return _code_of(problem.code, problem.status)


def code_of_error(error: DocstoreError) -> ErrorCode:
    """Return the code for an error of a request about a topic."""
    return _code_of(error.code, error.status)


def _code_of(code: str, status: int) -> ErrorCode:
    return _BY_CODE.get(code) or _BY_STATUS.get(status, ErrorCode.unknown_server_error)
