package tidemark.peers;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.admin.ScalableTopics;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.common.policies.data.AutoScalePolicyOverride;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.policies.data.ScalableSubscriptionType;
import org.apache.pulsar.common.policies.data.ScalableTopicMetadata;
import org.apache.pulsar.common.policies.data.ScalableTopicStats;

/**
 * Every call of Pulsar's admin client about scalable topics, against an admin service with a token. Prints a line per
 * check: "ok NAME", or "FAILED NAME: WHY". Arguments: URL TOKEN.
 */
public final class PulsarAdminChecks implements AutoCloseable {
  private static final int WITHIN_SECONDS = 30;
  private static final String NAMESPACE = "public/default";

  private interface Check {
    void run() throws Exception;
  }

  private final String url;
  private final PulsarAdmin admin;
  private final ScalableTopics topics;

  private PulsarAdminChecks(String url, String token) throws Exception {
    this.url = url;
    this.admin =
        PulsarAdmin.builder().serviceHttpUrl(url).authentication(AuthenticationFactory.token(token)).build();
    this.topics = admin.scalableTopics();
  }

  public static void main(String[] arguments) throws Exception {
    boolean failed;
    try (var checks = new PulsarAdminChecks(arguments[0], arguments[1])) {
      failed = checks.runAll();
    }
    System.exit(failed ? 1 : 0); // threads of the client may still run
  }

  private boolean runAll() throws Exception {
    // So that sealed segments stay to be seen.
    admin.namespaces().setRetention(NAMESPACE, new RetentionPolicies(-1, -1));
    Map<String, Check> all = new LinkedHashMap<>();
    all.put("create", this::create);
    all.put("list", this::list);
    all.put("metadata", this::metadata);
    all.put("stats", this::stats);
    all.put("split", this::split);
    all.put("merge", this::merge);
    all.put("topic policies", this::topicPolicies);
    all.put("namespace policies", this::namespacePolicies);
    all.put("retention", this::retention);
    all.put("subscriptions", this::subscriptions);
    all.put("seek and clear", this::seekAndClear);
    all.put("segments", this::segments);
    all.put("migrate", this::migrate);
    all.put("encoded names", this::encodedNames);
    all.put("delete", this::delete);
    all.put("without a token", this::withoutToken);
    boolean failed = false;
    for (var check : all.entrySet()) {
      try {
        check.getValue().run();
        System.out.println("ok " + check.getKey());
      } catch (Throwable error) {
        failed = true;
        System.out.println("FAILED " + check.getKey() + ": " + error);
      }
    }
    return failed;
  }

  private void create() throws Exception {
    topics.createScalableTopic(NAMESPACE + "/create", 1);
    topics.createScalableTopic(NAMESPACE + "/create-many", 3, Map.of("made", "many"));
    same(3, topics.getMetadata(NAMESPACE + "/create-many").getSegments().size());
    refused(PulsarAdminException.ConflictException.class, 409, () -> {
      topics.createScalableTopic(NAMESPACE + "/create", 1);
    });
    refused(PulsarAdminException.PreconditionFailedException.class, 412, () -> {
      topics.createScalableTopic(NAMESPACE + "/create-none", 0);
    });
  }

  private void list() throws Exception {
    topics.createScalableTopic(NAMESPACE + "/list-a", 1, Map.of("list", "yes", "team", "a&b=c d"));
    topics.createScalableTopic(NAMESPACE + "/list-b", 1, Map.of("list", "yes"));
    same(
        Set.of("topic://public/default/list-a", "topic://public/default/list-b"),
        new TreeSet<>(topics.listScalableTopicsByProperties(NAMESPACE, Map.of("list", "yes"))));
    same(
        List.of("topic://public/default/list-a"),
        topics.listScalableTopicsByProperties(NAMESPACE, Map.of("list", "yes", "team", "a&b=c d")));
    same(true, topics.listScalableTopics(NAMESPACE).contains("topic://public/default/list-b"));
    same(List.of(), topics.listScalableTopics("public/nobody"));
  }

  private void metadata() throws Exception {
    topics.createScalableTopic(NAMESPACE + "/metadata", 2, Map.of("colour", "blue"));
    ScalableTopicMetadata found = topics.getMetadata("topic://public/default/metadata");
    same(0L, found.getEpoch());
    same(2L, found.getNextSegmentId());
    same(Map.of("colour", "blue"), found.getProperties());
    var second = found.getSegments().get(1L);
    same(32768, second.getHashRange().getStart());
    same(65535, second.getHashRange().getEnd());
    same(List.of(), second.getParentIds());
    refused(PulsarAdminException.NotFoundException.class, 404, () -> topics.getMetadata(NAMESPACE + "/absent"));
  }

  private void stats() throws Exception {
    topics.createScalableTopic(NAMESPACE + "/stats", 2);
    topics.createSubscription(NAMESPACE + "/stats", "billing", ScalableSubscriptionType.STREAM);
    ScalableTopicStats found = topics.getStats(NAMESPACE + "/stats");
    same(2, found.getTotalSegments());
    same(2, found.getActiveSegments());
    same(0, found.getSealedSegments());
    same("ACTIVE", found.getSegments().get(0L).state());
    same("segment://public/default/stats/0000-7fff-0", found.getSegments().get(0L).name());
    same(0, found.getSubscriptions().get("billing").consumerCount());
    refused(PulsarAdminException.NotFoundException.class, 404, () -> topics.getStats(NAMESPACE + "/absent"));
  }

  private void split() throws Exception {
    topics.createScalableTopic(NAMESPACE + "/split", 1);
    topics.splitSegment(NAMESPACE + "/split", 0);
    ScalableTopicMetadata found = topics.getMetadata(NAMESPACE + "/split");
    same(1L, found.getEpoch());
    same(List.of(1L, 2L), found.getSegments().get(0L).getChildIds());
    refused(PulsarAdminException.NotFoundException.class, 404, () -> topics.splitSegment(NAMESPACE + "/split", 77));
    refused(PulsarAdminException.PreconditionFailedException.class, 412, () -> {
      topics.splitSegment(NAMESPACE + "/split", 0);
    });
  }

  private void merge() throws Exception {
    topics.createScalableTopic(NAMESPACE + "/merge", 3);
    topics.mergeSegments(NAMESPACE + "/merge", 0, 1);
    same(List.of(0L, 1L), topics.getMetadata(NAMESPACE + "/merge").getSegments().get(3L).getParentIds());
    refused(PulsarAdminException.PreconditionFailedException.class, 412, () -> {
      topics.mergeSegments(NAMESPACE + "/merge", 0, 2);
    });
  }

  private void topicPolicies() throws Exception {
    topics.createScalableTopic(NAMESPACE + "/policies", 1);
    same(null, topics.getAutoScalePolicy(NAMESPACE + "/policies"));
    var policy = AutoScalePolicyOverride.builder().enabled(false).maxSegments(8).splitMsgRateInThreshold(2500.5).build();
    topics.setAutoScalePolicy(NAMESPACE + "/policies", policy);
    same(policy, topics.getAutoScalePolicy(NAMESPACE + "/policies"));
    same(policy, topics.getMetadata(NAMESPACE + "/policies").getAutoScalePolicy());
    refused(PulsarAdminException.PreconditionFailedException.class, 412, () -> {
      topics.setAutoScalePolicy(
          NAMESPACE + "/policies", AutoScalePolicyOverride.builder().maxSegments(2).minSegments(3).build());
    });
    topics.removeAutoScalePolicy(NAMESPACE + "/policies");
    same(null, topics.getAutoScalePolicy(NAMESPACE + "/policies"));
    refused(PulsarAdminException.NotFoundException.class, 404, () -> topics.getAutoScalePolicy(NAMESPACE + "/absent"));
  }

  private void namespacePolicies() throws Exception {
    same(null, admin.namespaces().getScalableTopicAutoScalePolicy("public/policies"));
    var policy = AutoScalePolicyOverride.builder().mergeWindowSeconds(60L).mergeBytesRateInThreshold(1000L).build();
    admin.namespaces().setScalableTopicAutoScalePolicy("public/policies", policy);
    same(policy, admin.namespaces().getScalableTopicAutoScalePolicy("public/policies"));
    admin.namespaces().removeScalableTopicAutoScalePolicy("public/policies");
    same(null, admin.namespaces().getScalableTopicAutoScalePolicy("public/policies"));
  }

  private void retention() throws Exception {
    same(null, admin.namespaces().getRetention("public/retention"));
    admin.namespaces().setRetention("public/retention", new RetentionPolicies(90, -1));
    same(new RetentionPolicies(90, -1), admin.namespaces().getRetention("public/retention"));
    admin.namespaces().setRetention("public/retention", new RetentionPolicies(0, 0));
    same(new RetentionPolicies(0, 0), admin.namespaces().getRetention("public/retention"));
    admin.namespaces().removeRetention("public/retention");
    same(null, admin.namespaces().getRetention("public/retention"));
  }

  private void subscriptions() throws Exception {
    // The client puts names into paths as they are: a slash in one is for its caller to encode.
    topics.createScalableTopic(NAMESPACE + "/subscriptions", 2);
    topics.createSubscription(NAMESPACE + "/subscriptions", "a%2Fb c", ScalableSubscriptionType.QUEUE);
    topics.createSubscription(NAMESPACE + "/subscriptions", "a%2Fb c", ScalableSubscriptionType.QUEUE);
    same(Set.of("a/b c"), topics.getStats(NAMESPACE + "/subscriptions").getSubscriptions().keySet());
    refused(PulsarAdminException.ConflictException.class, 409, () -> {
      topics.createSubscription(NAMESPACE + "/subscriptions", "a%2Fb c", ScalableSubscriptionType.STREAM);
    });
    topics.deleteSubscription(NAMESPACE + "/subscriptions", "a%2Fb c");
    topics.deleteSubscription(NAMESPACE + "/subscriptions", "a%2Fb c");
    same(Set.of(), topics.getStats(NAMESPACE + "/subscriptions").getSubscriptions().keySet());
  }

  private void seekAndClear() throws Exception {
    topics.createScalableTopic(NAMESPACE + "/seek", 2);
    topics.createSubscription(NAMESPACE + "/seek", "billing", ScalableSubscriptionType.STREAM);
    topics.seekSubscription(NAMESPACE + "/seek", "billing", 0);
    topics.clearBacklog(NAMESPACE + "/seek", "billing");
    refused(PulsarAdminException.NotFoundException.class, 404, () -> {
      topics.seekSubscription(NAMESPACE + "/seek", "absent", 0);
    });
    refused(PulsarAdminException.NotFoundException.class, 404, () -> topics.clearBacklog(NAMESPACE + "/seek", "absent"));
  }

  private void segments() throws Exception {
    var segment = "segment://public/default/alone/0000-ffff-7";
    topics.createSegment(segment, List.of("billing"));
    topics.createSegment(segment, List.of());
    same(0L, within(topics.getSegmentSubscriptionBacklogAsync(segment, "billing")));
    within(topics.createSegmentSubscriptionAsync(segment, "audit"));
    within(topics.seekSegmentSubscriptionAsync(segment, "audit", 1));
    within(topics.clearSegmentSubscriptionBacklogAsync(segment, "audit"));
    within(topics.deleteSegmentSubscriptionAsync(segment, "audit"));
    refused(PulsarAdminException.NotFoundException.class, 404, () -> {
      within(topics.getSegmentSubscriptionBacklogAsync(segment, "audit"));
    });
    topics.terminateSegment(segment);
    topics.deleteSegment(segment, true);
    topics.deleteSegment(segment, true);
  }

  private void migrate() throws Exception {
    topics.createScalableTopic(NAMESPACE + "/migrate", 1);
    refused(PulsarAdminException.ConflictException.class, 409, () -> {
      topics.migrateToScalable(NAMESPACE + "/migrate", false);
    });
    refused(PulsarAdminException.NotFoundException.class, 404, () -> {
      topics.migrateToScalable(NAMESPACE + "/absent", true);
    });
  }

  private void encodedNames() throws Exception {
    for (String local : List.of("a%2Fb", "b c:d", "100%25")) {
      topics.createScalableTopic("topic://public/names/" + local, 1);
      same(1, topics.getMetadata("topic://public/names/" + local).getSegments().size());
    }
    same(
        Set.of("topic://public/names/a/b", "topic://public/names/b c:d", "topic://public/names/100%"),
        new TreeSet<>(topics.listScalableTopics("public/names")));
  }

  private void delete() throws Exception {
    topics.createScalableTopic(NAMESPACE + "/delete", 2);
    topics.deleteScalableTopic(NAMESPACE + "/delete");
    refused(PulsarAdminException.NotFoundException.class, 404, () -> topics.getMetadata(NAMESPACE + "/delete"));
    refused(PulsarAdminException.NotFoundException.class, 404, () -> {
      topics.deleteScalableTopic(NAMESPACE + "/delete", true);
    });
  }

  private void withoutToken() throws Exception {
    try (PulsarAdmin stranger = PulsarAdmin.builder().serviceHttpUrl(url).build()) {
      refused(PulsarAdminException.NotAuthorizedException.class, 401, () -> {
        stranger.scalableTopics().listScalableTopics(NAMESPACE);
      });
    }
  }

  private static <T> T within(CompletableFuture<T> call) throws Exception {
    try {
      return call.get(WITHIN_SECONDS, TimeUnit.SECONDS);
    } catch (ExecutionException failed) {
      throw (Exception) failed.getCause();
    }
  }

  private static void refused(Class<? extends PulsarAdminException> kind, int status, Check call) throws Exception {
    try {
      call.run();
    } catch (PulsarAdminException refused) {
      same(kind, refused.getClass());
      same(status, refused.getStatusCode());
      same(false, refused.getHttpError() == null || refused.getHttpError().startsWith("HTTP "));
      return;
    }
    throw new AssertionError("it was not refused: " + status + " is expected");
  }

  private static void same(Object expected, Object found) {
    if (!Objects.equals(expected, found)) {
      throw new AssertionError("expected " + expected + ", found " + found);
    }
  }

  @Override
  public void close() {
    admin.close();
  }
}
