package tidemark.peers;

import org.apache.pulsar.PulsarStandaloneStarter;

/** Pulsar's own standalone, with its own arguments: all of it, or a part. Prints "ready" when it serves. */
public final class PulsarServer {
  private PulsarServer() {}

  public static void main(String[] arguments) {
    try {
      new PulsarStandaloneStarter(arguments).start();
    } catch (Throwable error) {
      error.printStackTrace();
      Runtime.getRuntime().halt(1); // threads that were started before would go on
    }
    System.out.println("ready");
  }
}
