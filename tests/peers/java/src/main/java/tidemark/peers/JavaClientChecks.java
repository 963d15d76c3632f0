package tidemark.peers;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.oxia.client.api.AsyncOxiaClient;
import io.oxia.client.api.GetResult;
import io.oxia.client.api.Notification;
import io.oxia.client.api.OxiaClientBuilder;
import io.oxia.client.api.PutResult;
import io.oxia.client.api.SyncOxiaClient;
import io.oxia.client.api.exceptions.KeyAlreadyExistsException;
import io.oxia.client.api.exceptions.UnexpectedVersionIdException;
import io.oxia.client.api.options.DeleteOption;
import io.oxia.client.api.options.GetOption;
import io.oxia.client.api.options.GetSequenceUpdatesOption;
import io.oxia.client.api.options.ListOption;
import io.oxia.client.api.options.PutOption;
import io.oxia.client.api.options.RangeScanOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The main paths of the released client against a fresh server with four shards. Prints a line per check: "ok NAME",
 * or "FAILED NAME: WHY".
 */
public final class JavaClientChecks implements AutoCloseable {
  private static final int SHARDS = 4;
  private static final int WITHIN_SECONDS = 20;
  private static final int LARGE_BYTES = 5 << 20;

  private interface Check {
    void run() throws Exception;
  }

  private final String address;
  private final SyncOxiaClient client;
  private final AsyncOxiaClient asynchronous;

  private JavaClientChecks(String address) throws Exception {
    this.address = address;
    this.client = builder("checks").syncClient();
    this.asynchronous = builder("checks").asyncClient().get(WITHIN_SECONDS, TimeUnit.SECONDS);
  }

  public static void main(String[] arguments) throws Exception {
    boolean failed;
    try (var checks = new JavaClientChecks(arguments[0])) {
      failed = checks.runAll();
    }
    System.exit(failed ? 1 : 0); // threads of the client may still run
  }

  private boolean runAll() {
    Map<String, Check> all = new LinkedHashMap<>();
    all.put("records", this::records);
    all.put("conditions", this::conditions);
    all.put("comparisons", this::comparisons);
    all.put("lists and scans", this::listsAndScans);
    all.put("partition keys", this::partitionKeys);
    all.put("range deletes", this::rangeDeletes);
    all.put("sequences", this::sequences);
    all.put("sequence updates", this::sequenceUpdates);
    all.put("indexes", this::indexes);
    all.put("ephemerals", this::ephemerals);
    all.put("notifications", this::notifications);
    all.put("pipelined writes", this::pipelinedWrites);
    all.put("large values", this::largeValues);
    boolean failed = false;
    for (var check : all.entrySet()) {
      try {
        check.getValue().run();
        System.out.println("ok " + check.getKey());
      } catch (Exception | AssertionError problem) {
        failed = true;
        System.out.println("FAILED " + check.getKey() + ": " + problem);
      }
    }
    return failed;
  }

  @Override
  public void close() throws Exception {
    asynchronous.close();
    client.close();
  }

  private OxiaClientBuilder builder(String identity) {
    return OxiaClientBuilder.create(address).clientIdentifier(identity).sessionTimeout(Duration.ofSeconds(10));
  }

  // ------------------------------------------------------------------------------------------------------ checks

  private void records() throws Exception {
    PutResult created = client.put("records/a", bytes("one"));
    same("a new record's count", 0L, created.version().modificationsCount());
    PutResult changed = client.put("records/a", bytes("two"));
    same("an overwritten record's count", 1L, changed.version().modificationsCount());
    same("later version ids are greater", true, changed.version().versionId() > created.version().versionId());
    GetResult found = client.get("records/a");
    same("the key", "records/a", found.key());
    same("the value", "two", text(found));
    same("the version", changed.version(), found.version());
    same("the time of creation", created.version().createdTimestamp(), found.version().createdTimestamp());
    same("no value", 0, client.get("records/a", Set.of(GetOption.ExcludeValue)).value().length);
    client.put("records/empty", new byte[0]);
    same("an empty value", 0, client.get("records/empty").value().length);
    same("a deletion", true, client.delete("records/a"));
    same("a deletion of nothing", false, client.delete("records/a"));
    same("a deleted record", null, client.get("records/a"));
  }

  private void conditions() throws Exception {
    long version =
        client.put("conditions", bytes("1"), Set.of(PutOption.IfRecordDoesNotExist)).version().versionId();
    refused(
        KeyAlreadyExistsException.class,
        () -> client.put("conditions", bytes("2"), Set.of(PutOption.IfRecordDoesNotExist)));
    long next =
        client.put("conditions", bytes("2"), Set.of(PutOption.IfVersionIdEquals(version))).version().versionId();
    refused(
        UnexpectedVersionIdException.class,
        () -> client.put("conditions", bytes("3"), Set.of(PutOption.IfVersionIdEquals(version))));
    refused(
        UnexpectedVersionIdException.class,
        () -> client.delete("conditions", Set.of(DeleteOption.IfVersionIdEquals(version))));
    same("the value", "2", text(client.get("conditions")));
    same("a deletion", true, client.delete("conditions", Set.of(DeleteOption.IfVersionIdEquals(next))));
  }

  private void comparisons() {
    for (String key : List.of("cmp-b", "cmp-d", "cmp-f", "cmp-h", "cmp-j")) {
      client.put(key, bytes(key));
    }
    same("equal", null, client.get("cmp-c"));
    same("floor", "cmp-b", client.get("cmp-c", Set.of(GetOption.ComparisonFloor)).key());
    same("floor of itself", "cmp-d", client.get("cmp-d", Set.of(GetOption.ComparisonFloor)).key());
    same("lower", "cmp-b", client.get("cmp-d", Set.of(GetOption.ComparisonLower)).key());
    same("ceiling", "cmp-d", client.get("cmp-c", Set.of(GetOption.ComparisonCeiling)).key());
    same("higher", "cmp-h", client.get("cmp-f", Set.of(GetOption.ComparisonHigher)).key());
  }

  private void listsAndScans() {
    List<String> keys = new ArrayList<>();
    for (int number = 0; number < 40; number++) {
      keys.add("list-%02d".formatted(number));
      client.put(keys.get(number), bytes("v" + number));
    }
    same("a list over all shards", keys.subList(5, 35), client.list("list-05", "list-35"));
    List<String> scanned = new ArrayList<>();
    try (var records = client.rangeScan("list-05", "list-35")) {
      records.forEach(record -> scanned.add(record.key() + "=" + text(record)));
    }
    scanned.sort(null); // the client does not sort what it scans on several shards
    same("the size of a scan", 30, scanned.size());
    same("the first of a scan", "list-05=v5", scanned.get(0));
    same("the last of a scan", "list-34=v34", scanned.get(29));
    try (var records = client.rangeScan("list-", "list-~")) {
      same("a scan that is left early", true, records.iterator().next().key().startsWith("list-"));
    }
    same("an empty range", List.of(), client.list("list-35", "list-05"));
  }

  private void partitionKeys() throws Exception {
    // Under "away" every key lives on one shard; under their own names they are spread over all of them.
    for (int number = 0; number < 12; number++) {
      client.put("part-%02d".formatted(number), bytes("v"), Set.of(PutOption.PartitionKey("away")));
    }
    same("with it", "v", text(client.get("part-03", Set.of(GetOption.PartitionKey("away")))));
    same("a list of the partition", 12, client.list("part-", "part-~", Set.of(ListOption.PartitionKey("away"))).size());
    int strays = 0;
    for (int number = 0; number < 12; number++) {
      strays += client.get("part-%02d".formatted(number)) == null ? 1 : 0;
    }
    same("without it some are not found", true, strays > 0);
    same("a deletion", true, client.delete("part-03", Set.of(DeleteOption.PartitionKey("away"))));
  }

  private void rangeDeletes() {
    for (String key : List.of("range-a", "range-b", "range-c", "range-d")) {
      client.put(key, bytes(key));
    }
    client.deleteRange("range-b", "range-d");
    same("what is left", List.of("range-a", "range-d"), client.list("range-", "range-~"));
  }

  private void sequences() throws Exception {
    same("the first", "seq-" + number(1), sequencePut("seq", 1));
    same("the next", "seq-" + number(4), sequencePut("seq", 3));
    same("two deltas", "seq-" + number(5) + "-" + number(6), sequencePut("seq", 1, 6));
    List<CompletableFuture<PutResult>> answers = new ArrayList<>();
    for (int each = 0; each < 50; each++) {
      answers.add(asynchronous.put("many", bytes("v"), sequenceOptions(1)));
    }
    for (int each = 0; each < 50; each++) {
      PutResult answer = answers.get(each).get(WITHIN_SECONDS, TimeUnit.SECONDS);
      same("the order of asynchronous puts", "many-" + number(each + 1), answer.key());
    }
  }

  private void sequenceUpdates() throws Exception {
    BlockingQueue<String> updates = new LinkedBlockingQueue<>();
    Set<GetSequenceUpdatesOption> partition = Set.of(GetSequenceUpdatesOption.PartitionKey("p"));
    sequencePut("watched", 1);
    try (var subscription = client.getSequenceUpdates("watched", updates::add, partition)) {
      same("the present one", "watched-" + number(1), next(updates));
      sequencePut("watched", 1);
      same("the next one", "watched-" + number(2), next(updates));
    }
  }

  private void indexes() throws Exception {
    // Both keys rise together: of several shards' answers the client takes the one with the nearest primary key.
    for (int each = 0; each < 10; each++) {
      var index = PutOption.SecondaryIndex("by-number", "%03d".formatted(each * 10));
      client.put("indexed-" + (char) ('a' + each), bytes("v" + each), Set.of(index));
    }
    var byNumber = ListOption.UseIndex("by-number");
    List<String> listed = client.list("010", "040", Set.of(byNumber));
    same("a list", Set.of("indexed-b", "indexed-c", "indexed-d"), Set.copyOf(listed));
    List<String> scanned = new ArrayList<>();
    try (var records = client.rangeScan("010", "040", Set.of(RangeScanOption.UseIndex("by-number")))) {
      records.forEach(record -> scanned.add(text(record)));
    }
    same("a scan", Set.of("v1", "v2", "v3"), Set.copyOf(scanned));
    var use = GetOption.UseIndex("by-number");
    same("equal", "indexed-c", client.get("020", Set.of(use)).key());
    same("floor", "indexed-c", client.get("025", Set.of(use, GetOption.ComparisonFloor)).key());
    same("higher", "indexed-d", client.get("020", Set.of(use, GetOption.ComparisonHigher)).key());
    same("nothing lower", null, client.get("000", Set.of(use, GetOption.ComparisonLower)));
    client.delete("indexed-c");
    same("a deleted record", List.of(), client.list("020", "021", Set.of(byNumber)));
  }

  private void ephemerals() throws Exception {
    BlockingQueue<Notification> news = new LinkedBlockingQueue<>();
    try (var watcher = builder("watcher").syncClient()) {
      subscribe(watcher, news);
      try (var other = builder("other").syncClient()) {
        PutResult put = other.put("ephemeral", bytes("v"), Set.of(PutOption.AsEphemeralRecord));
        same("a session", true, put.version().sessionId().isPresent());
        same("the identity", Optional.of("other"), put.version().clientIdentifier());
        same("the version as others see it", put.version(), client.get("ephemeral").version());
        other.put("taken over", bytes("v"), Set.of(PutOption.AsEphemeralRecord));
        client.put("taken over", bytes("kept"));
      }
      Notification gone = next(news);
      while (!(gone instanceof Notification.KeyDeleted)) {
        gone = next(news);
      }
      same("what goes with its client", "ephemeral", gone.key());
    }
    same("an ephemeral record", null, client.get("ephemeral"));
    same("one that was made permanent", "kept", text(client.get("taken over")));
  }

  private void notifications() throws Exception {
    BlockingQueue<Notification> news = new LinkedBlockingQueue<>();
    try (var watcher = builder("watcher").syncClient()) {
      subscribe(watcher, news);
      long created = client.put("news", bytes("1")).version().versionId();
      same("a creation", new Notification.KeyCreated("news", created), next(news));
      long changed = client.put("news", bytes("2")).version().versionId();
      same("a change", new Notification.KeyModified("news", changed), next(news));
      client.delete("news");
      same("a deletion", new Notification.KeyDeleted("news"), next(news));
      client.deleteRange("news-a", "news-z");
      for (int shard = 0; shard < SHARDS; shard++) {
        same("a range, once per shard", new Notification.KeyRangeDelete("news-a", "news-z"), next(news));
      }
      client.put("news-end", bytes("v"));
      same("nothing more", "news-end", next(news).key());
    }
  }

  private void pipelinedWrites() throws Exception {
    List<CompletableFuture<PutResult>> answers = new ArrayList<>();
    for (int each = 0; each < 2000; each++) {
      answers.add(asynchronous.put("pipelined-" + each % 100, bytes("v" + each)));
    }
    for (var answer : answers) {
      answer.get(WITHIN_SECONDS, TimeUnit.SECONDS);
    }
    for (int each = 0; each < 100; each++) {
      GetResult found = asynchronous.get("pipelined-" + each).get(WITHIN_SECONDS, TimeUnit.SECONDS);
      same("the last value", "v" + (1900 + each), text(found));
      same("the count of changes", 19L, found.version().modificationsCount());
    }
  }

  private void largeValues() {
    byte[] value = new byte[LARGE_BYTES];
    Arrays.fill(value, (byte) 7);
    client.put("large", value);
    same("a large value", true, Arrays.equals(value, client.get("large").value()));
  }

  // ------------------------------------------------------------------------------------------------------- tools

  /** Returns when the news of every shard arrive: the client does not say when it has subscribed. */
  private void subscribe(SyncOxiaClient watcher, BlockingQueue<Notification> news) throws Exception {
    watcher.notifications(news::add);
    for (int attempt = 0; attempt < WITHIN_SECONDS; attempt++) {
      String mark = "subscribed-" + attempt;
      client.deleteRange(mark, mark); // tells every shard's subscribers
      int arrived = 0;
      Notification item = news.poll(1, TimeUnit.SECONDS);
      while (item != null) {
        arrived += item.key().equals(mark) ? 1 : 0;
        if (arrived == SHARDS) {
          return;
        }
        item = news.poll(1, TimeUnit.SECONDS);
      }
    }
    throw new AssertionError("no subscription within " + WITHIN_SECONDS + " s");
  }

  private String sequencePut(String key, long... deltas) throws Exception {
    return client.put(key, bytes("v"), sequenceOptions(deltas)).key();
  }

  private static Set<PutOption> sequenceOptions(long... deltas) {
    List<Long> boxed = Arrays.stream(deltas).boxed().toList();
    return Set.of(PutOption.PartitionKey("p"), PutOption.SequenceKeysDeltas(boxed));
  }

  private static String number(long number) {
    return "%020d".formatted(number);
  }

  private static byte[] bytes(String text) {
    return text.getBytes(UTF_8);
  }

  private static String text(GetResult found) {
    return new String(found.value(), UTF_8);
  }

  private static <T> T next(BlockingQueue<T> queue) throws InterruptedException {
    T item = queue.poll(WITHIN_SECONDS, TimeUnit.SECONDS);
    if (item == null) {
      throw new AssertionError("nothing came within " + WITHIN_SECONDS + " s");
    }
    return item;
  }

  private static void same(String what, Object expected, Object actual) {
    if (!Objects.equals(expected, actual)) {
      throw new AssertionError(what + ": expected " + expected + ", got " + actual);
    }
  }

  private static void refused(Class<? extends Exception> expected, Callable<?> action) throws Exception {
    try {
      action.call();
    } catch (Exception refusal) {
      same("the refusal", expected, refusal.getClass());
      return;
    }
    throw new AssertionError("expected " + expected.getSimpleName());
  }
}
