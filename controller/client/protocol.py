"""The methods of the broker's service: what is asked, what is answered, and under which path.

Every one of them may be asked again after a lost answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from controller.pb import broker_pb2 as pb

SERVICE = "tidemark.broker.v1.Broker"

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[Q, A]):
    """A method with its messages."""

    name: str
    request: type[Q]
    answer: type[A]
    is_two_way: bool = False
    """Whether there are any number of requests."""

    @property
    def path(self) -> str:
        return f"/{SERVICE}/{self.name}"


DESCRIBE_BROKER = Method("DescribeBroker", pb.DescribeBrokerRequest, pb.DescribeBrokerResponse)
# A transaction that was begun twice by one request ends at its deadline without ever having been used.
BEGIN = Method("BeginTransaction", pb.BeginTransactionRequest, pb.BeginTransactionResponse)
END = Method("EndTransaction", pb.EndTransactionRequest, pb.TransactionDescription)
DESCRIBE_TRANSACTION = Method("DescribeTransaction", pb.DescribeTransactionRequest, pb.TransactionDescription)

CREATE_SEGMENT = Method("CreateSegment", pb.CreateSegmentRequest, pb.CreateSegmentResponse)
DELETE_SEGMENT = Method("DeleteSegment", pb.DeleteSegmentRequest, pb.DeleteSegmentResponse)
SEAL_SEGMENT = Method("SealSegment", pb.SealSegmentRequest, pb.SealSegmentResponse)
TRIM_SEGMENT = Method("TrimSegment", pb.TrimSegmentRequest, pb.TrimSegmentResponse)
SEGMENT_STATS = Method("SegmentStats", pb.SegmentStatsRequest, pb.SegmentStatsResponse)
LIST_SEGMENTS = Method("ListSegments", pb.ListSegmentsRequest, pb.ListSegmentsResponse)

DELETE_SUBSCRIPTION = Method("DeleteSubscription", pb.DeleteSubscriptionRequest, pb.DeleteSubscriptionResponse)
SEEK = Method("Seek", pb.SeekRequest, pb.SeekResponse)

PRODUCE = Method("Produce", pb.ProduceRequest, pb.ProduceResponse, is_two_way=True)
CONSUME = Method("Consume", pb.ConsumeRequest, pb.ConsumeResponse, is_two_way=True)
READ = Method("Read", pb.ReadRequest, pb.ReadResponse)
