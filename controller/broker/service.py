"""The methods of the service, by their names, and who answers them."""

from __future__ import annotations

import grpc

from controller.broker.calls import Calls
from controller.broker.consume import serve_consumer
from controller.broker.desk import Desk
from controller.broker.produce import serve_producer
from controller.broker.read import serve_reader
from controller.broker.segments import Segments
from controller.broker.subscriptions import Subscriptions
from controller.broker.transactions import Transactions
from controller.pb import broker_pb2 as pb

SERVICE = pb.DESCRIPTOR.services_by_name["Broker"].full_name


def broker_service(desk: Desk, calls: Calls) -> dict[str, grpc.RpcMethodHandler[bytes, bytes]]:
    """The handlers of all methods, by name."""
    transactions, segments, subscriptions = Transactions(desk), Segments(desk), Subscriptions(desk)
    handlers = [
        calls.unary("DescribeBroker", pb.DescribeBrokerRequest, segments.describe_broker),
        calls.unary("BeginTransaction", pb.BeginTransactionRequest, transactions.begin),
        calls.unary("EndTransaction", pb.EndTransactionRequest, transactions.end),
        calls.unary("DescribeTransaction", pb.DescribeTransactionRequest, transactions.describe),
        calls.unary("CreateSegment", pb.CreateSegmentRequest, segments.create),
        calls.unary("DeleteSegment", pb.DeleteSegmentRequest, segments.delete),
        calls.unary("SealSegment", pb.SealSegmentRequest, segments.seal),
        calls.unary("TrimSegment", pb.TrimSegmentRequest, segments.trim),
        calls.unary("SegmentStats", pb.SegmentStatsRequest, segments.stats),
        calls.unary("ListSegments", pb.ListSegmentsRequest, segments.list),
        calls.unary("LookupSegment", pb.LookupSegmentRequest, segments.look_up),
        calls.unary("CreateSubscription", pb.CreateSubscriptionRequest, subscriptions.create),
        calls.unary("DeleteSubscription", pb.DeleteSubscriptionRequest, subscriptions.delete),
        calls.unary("Seek", pb.SeekRequest, subscriptions.seek),
        calls.stream("Produce", lambda stream: serve_producer(desk, stream)),
        calls.stream("Consume", lambda stream: serve_consumer(desk, stream)),
        calls.answers("Read", lambda stream: serve_reader(desk, stream)),
    ]
    return dict(handlers)
