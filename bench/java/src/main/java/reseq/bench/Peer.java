package reseq.bench;

/** What is measured. It calls {@link Run#work} and then {@link Run#done} for each message. */
interface Peer extends AutoCloseable {
  int BODY_BYTES = 200;

  String name();

  /** Takes a message in. It may wait while there is no room. */
  void send(int index, byte[] body) throws Exception;

  /** Holds when all that was sent is accepted. */
  void flush();
}
