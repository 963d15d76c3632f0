package tidemark.peers;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.MessageId;
import org.apache.pulsar.client.api.v5.Producer;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.QueueConsumer;
import org.apache.pulsar.client.api.v5.Transaction;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.config.TransactionPolicy;
import org.apache.pulsar.client.api.v5.schema.Schema;

/**
 * Applications of a Pulsar that do what they are told: each line of standard input is a verb and its arguments, with
 * tabs between; each is answered by one line, "ok" or "failed" and what there is to say. Arguments: the broker's
 * service URL, and that of its admin service.
 */
public final class PulsarApplications {
  private static final Duration RECEIVE_WITHIN = Duration.ofSeconds(60);
  private static final String NONE = "-";

  private final String serviceUrl;
  private final PulsarAdmin admin;
  private final Map<String, PulsarClient> clients = new HashMap<>();
  private final Map<String, Producer<String>> producers = new HashMap<>();
  private final Map<String, QueueConsumer<String>> consumers = new HashMap<>();
  private final Map<String, MessageId> received = new HashMap<>();
  private final Map<String, Transaction> transactions = new HashMap<>();

  private PulsarApplications(String serviceUrl, String adminUrl) throws Exception {
    this.serviceUrl = serviceUrl;
    this.admin = PulsarAdmin.builder().serviceHttpUrl(adminUrl).build();
  }

  public static void main(String[] arguments) throws Exception {
    var applications = new PulsarApplications(arguments[0], arguments[1]);
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String answer;
      try {
        answer = ("ok\t" + applications.run(line.split("\t"))).stripTrailing();
      } catch (Throwable error) {
        answer = "failed\t" + error.toString().replaceAll("\\s+", " ");
      }
      System.out.println(answer);
    }
    System.exit(0); // threads of the client still run
  }

  private String run(String[] words) throws Exception {
    switch (words[0]) {
      case "namespace" -> admin.namespaces().createNamespace(words[1]);
      case "topic" -> admin.scalableTopics().createScalableTopic(words[1], Integer.parseInt(words[2]));
      case "unload" -> admin.namespaces().unload(words[1]);
      case "begin" -> {
        return begin(words[1]);
      }
      case "send" -> send(words[1], words[2], words[3]);
      case "subscribe" -> consumers.put(words[1] + " " + words[2], subscribe(words[1], words[2]));
      case "receive" -> {
        return receive(consumers.get(words[1] + " " + words[2]), Integer.parseInt(words[3]));
      }
      case "acknowledge" ->
          consumers
              .get(words[2] + " " + words[3])
              .acknowledge(received.get(words[4]), transactions.get(words[1]));
      case "leave" -> producers.remove(words[1]).close();
      case "commit" -> transactions.get(words[1]).commit();
      case "abort" -> transactions.get(words[1]).abort();
      default -> throw new IllegalArgumentException("no such verb: " + words[0]);
    }
    return "";
  }

  /** How long transactions last is said for all of a client. */
  private PulsarClient client(String timeoutSeconds) throws Exception {
    var client = clients.get(timeoutSeconds);
    if (client == null) {
      var timeout = Duration.ofSeconds(Long.parseLong(timeoutSeconds));
      var policy = TransactionPolicy.builder().timeout(timeout).build();
      client = PulsarClient.builder().serviceUrl(serviceUrl).transactionPolicy(policy).build();
      clients.put(timeoutSeconds, client);
    }
    return client;
  }

  private String begin(String timeoutSeconds) throws Exception {
    var transaction = client(timeoutSeconds).newTransaction();
    var inner = transaction.getClass().getDeclaredMethod("v4Transaction"); // the interface does not tell the id
    inner.setAccessible(true);
    var id = ((org.apache.pulsar.client.api.transaction.Transaction) inner.invoke(transaction)).getTxnID();
    var name = id.getMostSigBits() + "_" + id.getLeastSigBits();
    transactions.put(name, transaction);
    return name;
  }

  private void send(String transaction, String topic, String value) throws Exception {
    var producer = producers.get(topic);
    if (producer == null) {
      producer = client("3600").newProducer(Schema.string()).topic(topic).create();
      producers.put(topic, producer);
    }
    var message = producer.newMessage().key(value).value(value);
    if (!transaction.equals(NONE)) {
      message.transaction(transactions.get(transaction));
    }
    message.send();
  }

  private QueueConsumer<String> subscribe(String topic, String subscription) throws Exception {
    return client("3600")
        .newQueueConsumer(Schema.string())
        .topic(topic)
        .subscriptionName(subscription)
        .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST)
        .subscribe();
  }

  private String receive(QueueConsumer<String> consumer, int count) throws Exception {
    List<String> values = new ArrayList<>();
    while (values.size() < count) {
      Message<String> message = consumer.receive(RECEIVE_WITHIN);
      if (message == null) {
        throw new IllegalStateException("nothing more came behind " + values);
      }
      received.put(message.value(), message.id());
      values.add(message.value());
    }
    return String.join("\t", values);
  }
}
