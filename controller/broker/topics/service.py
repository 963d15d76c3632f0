"""The methods of both services, by their names, and who answers them."""

from __future__ import annotations

from typing import TypeAlias

import grpc

from controller.broker.calls import Calls
from controller.broker.topics.changes import Changes
from controller.broker.topics.claims import ClaimDesk
from controller.broker.topics.desk import TopicDesk
from controller.broker.topics.directory import Directory
from controller.broker.topics.members import Members
from controller.broker.topics.numbers import Numbers
from controller.broker.topics.policies import PolicyDesk
from controller.broker.topics.watching import Watching
from controller.broker.topics.work import WorkHere
from controller.operations import SegmentWork
from controller.pb import topics_pb2 as pb

TOPICS = pb.DESCRIPTOR.services_by_name["Topics"].full_name
SEGMENT_WORK = pb.DESCRIPTOR.services_by_name["SegmentWork"].full_name

Handlers: TypeAlias = "dict[str, grpc.RpcMethodHandler[bytes, bytes]]"


def topics_service(desk: TopicDesk, calls: Calls) -> Handlers:
    """The handlers of all methods that clients call, by name."""
    directory, policies = Directory(desk), PolicyDesk(desk)
    changes, numbers = Changes(desk, directory), Numbers(desk, directory, policies)
    watching, members, claims = Watching(desk), Members(desk), ClaimDesk(desk)
    handlers = [
        calls.unary("CreateTopic", pb.CreateTopicRequest, directory.create),
        calls.unary("DescribeTopic", pb.DescribeTopicRequest, directory.describe),
        calls.unary("ListTopics", pb.ListTopicsRequest, directory.list),
        calls.unary("SetProperties", pb.SetPropertiesRequest, directory.set_properties),
        calls.unary("GetPolicy", pb.GetPolicyRequest, policies.get),
        calls.unary("SetPolicy", pb.SetPolicyRequest, policies.set),
        calls.unary("DeleteTopic", pb.DeleteTopicRequest, changes.delete),
        calls.unary("SplitSegment", pb.SplitSegmentRequest, changes.split),
        calls.unary("MergeSegments", pb.MergeSegmentsRequest, changes.merge),
        calls.unary("CreateTopicSubscription", pb.CreateTopicSubscriptionRequest, changes.subscribe),
        calls.unary("DeleteTopicSubscription", pb.DeleteTopicSubscriptionRequest, changes.unsubscribe),
        calls.unary("SeekTopicSubscription", pb.SeekTopicSubscriptionRequest, changes.seek),
        calls.unary("TopicStats", pb.TopicStatsRequest, numbers.stats),
        calls.unary("ExplainScaling", pb.ExplainScalingRequest, changes.explain),
        calls.unary("NoteDrained", pb.NoteDrainedRequest, changes.note_drained),
        calls.unary("ReleaseClaim", pb.ReleaseClaimRequest, claims.release),
        calls.answers("WatchTopic", watching.topic),
        calls.answers("WatchNamespace", watching.namespace),
        calls.answers("ClaimTopic", claims.serve),
        calls.stream("Subscribe", members.serve),
    ]
    return dict(handlers)


def work_service(work: SegmentWork, calls: Calls) -> Handlers:
    """The handlers of what brokers ask of each other, by name."""
    here = WorkHere(work)
    handlers = [
        calls.unary("CreateWithCursors", pb.CreateWithCursorsRequest, here.create),
        calls.unary("Seal", pb.SealRequest, here.seal),
        calls.unary("CreateCursor", pb.CreateCursorRequest, here.subscribe),
        calls.unary("DeleteCursor", pb.DeleteCursorRequest, here.unsubscribe),
        calls.unary("SetCursor", pb.SetCursorRequest, here.seek),
        calls.unary("SetClaim", pb.SetClaimRequest, here.set_claim),
        calls.unary("Backlog", pb.BacklogRequest, here.backlog),
        calls.unary("Backlogs", pb.BacklogsRequest, here.backlogs),
    ]
    return dict(handlers)
