"""The methods of brokers' services: what is asked, what is answered, and under which path.

Every one of them may be asked again after a lost answer.
"""

from __future__ import annotations

from controller.pb import broker_pb2 as pb
from controller.pb import topics_pb2 as topics
from metastore.dialling import Method

_BROKER = "/tidemark.broker.v1.Broker/"
_TOPICS = "/tidemark.topics.v1.Topics/"
_WORK = "/tidemark.topics.v1.SegmentWork/"

DESCRIBE_BROKER = Method(_BROKER + "DescribeBroker", pb.DescribeBrokerRequest, pb.DescribeBrokerResponse)
# A transaction that was begun twice by one request ends at its deadline without ever having been used.
BEGIN = Method(_BROKER + "BeginTransaction", pb.BeginTransactionRequest, pb.BeginTransactionResponse)
END = Method(_BROKER + "EndTransaction", pb.EndTransactionRequest, pb.TransactionDescription)
DESCRIBE_TRANSACTION = Method(_BROKER + "DescribeTransaction", pb.DescribeTransactionRequest, pb.TransactionDescription)

CREATE_SEGMENT = Method(_BROKER + "CreateSegment", pb.CreateSegmentRequest, pb.CreateSegmentResponse)
DELETE_SEGMENT = Method(_BROKER + "DeleteSegment", pb.DeleteSegmentRequest, pb.DeleteSegmentResponse)
SEAL_SEGMENT = Method(_BROKER + "SealSegment", pb.SealSegmentRequest, pb.SealSegmentResponse)
TRIM_SEGMENT = Method(_BROKER + "TrimSegment", pb.TrimSegmentRequest, pb.TrimSegmentResponse)
SEGMENT_STATS = Method(_BROKER + "SegmentStats", pb.SegmentStatsRequest, pb.SegmentStatsResponse)
LIST_SEGMENTS = Method(_BROKER + "ListSegments", pb.ListSegmentsRequest, pb.ListSegmentsResponse)

CREATE_SUBSCRIPTION = Method(
    _BROKER + "CreateSubscription", pb.CreateSubscriptionRequest, pb.CreateSubscriptionResponse
)
DELETE_SUBSCRIPTION = Method(
    _BROKER + "DeleteSubscription", pb.DeleteSubscriptionRequest, pb.DeleteSubscriptionResponse
)
SEEK = Method(_BROKER + "Seek", pb.SeekRequest, pb.SeekResponse)

PRODUCE = Method(_BROKER + "Produce", pb.ProduceRequest, pb.ProduceResponse, is_two_way=True)
CONSUME = Method(_BROKER + "Consume", pb.ConsumeRequest, pb.ConsumeResponse, is_two_way=True)
READ = Method(_BROKER + "Read", pb.ReadRequest, pb.ReadResponse)

CREATE_TOPIC = Method(_TOPICS + "CreateTopic", topics.CreateTopicRequest, topics.TopicDescription)
DESCRIBE_TOPIC = Method(_TOPICS + "DescribeTopic", topics.DescribeTopicRequest, topics.TopicDescription)
LIST_TOPICS = Method(_TOPICS + "ListTopics", topics.ListTopicsRequest, topics.ListTopicsResponse)
SET_PROPERTIES = Method(_TOPICS + "SetProperties", topics.SetPropertiesRequest, topics.TopicDescription)
GET_POLICY = Method(_TOPICS + "GetPolicy", topics.GetPolicyRequest, topics.Policy)
SET_POLICY = Method(_TOPICS + "SetPolicy", topics.SetPolicyRequest, topics.Policy)
DELETE_TOPIC = Method(_TOPICS + "DeleteTopic", topics.DeleteTopicRequest, topics.DeleteTopicResponse)
SPLIT_SEGMENT = Method(_TOPICS + "SplitSegment", topics.SplitSegmentRequest, topics.TopicDescription)
MERGE_SEGMENTS = Method(_TOPICS + "MergeSegments", topics.MergeSegmentsRequest, topics.TopicDescription)
CREATE_TOPIC_SUBSCRIPTION = Method(
    _TOPICS + "CreateTopicSubscription",
    topics.CreateTopicSubscriptionRequest,
    topics.CreateTopicSubscriptionResponse,
)
DELETE_TOPIC_SUBSCRIPTION = Method(
    _TOPICS + "DeleteTopicSubscription",
    topics.DeleteTopicSubscriptionRequest,
    topics.DeleteTopicSubscriptionResponse,
)
SEEK_TOPIC_SUBSCRIPTION = Method(
    _TOPICS + "SeekTopicSubscription",
    topics.SeekTopicSubscriptionRequest,
    topics.SeekTopicSubscriptionResponse,
)
TOPIC_STATS = Method(_TOPICS + "TopicStats", topics.TopicStatsRequest, topics.TopicStatsResponse)
EXPLAIN_SCALING = Method(_TOPICS + "ExplainScaling", topics.ExplainScalingRequest, topics.ExplainScalingResponse)
NOTE_DRAINED = Method(_TOPICS + "NoteDrained", topics.NoteDrainedRequest, topics.NoteDrainedResponse)
WATCH_TOPIC = Method(_TOPICS + "WatchTopic", topics.WatchTopicRequest, topics.TopicUpdate)
WATCH_NAMESPACE = Method(_TOPICS + "WatchNamespace", topics.WatchNamespaceRequest, topics.NamespaceUpdate)
SUBSCRIBE = Method(_TOPICS + "Subscribe", topics.SubscribeRequest, topics.SubscribeResponse, is_two_way=True)
RELEASE_CLAIM = Method(_TOPICS + "ReleaseClaim", topics.ReleaseClaimRequest, topics.ReleaseClaimResponse)
CLAIM_TOPIC = Method(_TOPICS + "ClaimTopic", topics.ClaimTopicRequest, topics.ClaimTopicResponse)

CREATE_WITH_CURSORS = Method(_WORK + "CreateWithCursors", topics.CreateWithCursorsRequest, topics.WorkDone)
CREATE_CURSOR = Method(_WORK + "CreateCursor", topics.CreateCursorRequest, topics.WorkDone)
DELETE_CURSOR = Method(_WORK + "DeleteCursor", topics.DeleteCursorRequest, topics.WorkDone)
SET_CURSOR = Method(_WORK + "SetCursor", topics.SetCursorRequest, topics.WorkDone)
BACKLOG = Method(_WORK + "Backlog", topics.BacklogRequest, topics.BacklogResponse)
