package reseq.bench;

import java.util.Map;
import org.apache.camel.CamelContext;
import org.apache.camel.ProducerTemplate;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.impl.DefaultCamelContext;

/**
 * Apache Camel's stream resequencer: threads do the work in any order, a resequencer a key brings
 * the results in order. In one process, in memory.
 */
public final class Camel implements Peer {
  private static final String SEQUENCE = "sequence";
  private static final String KEY = "key";

  /** Room in front of the workers; a sender waits when it is full. */
  private static final int QUEUE = 1000;

  /**
   * What a resequencer may hold. When it is full Camel sleeps for the whole time-out, so it has to
   * be more than ever waits behind a slow message.
   */
  private static final int CAPACITY = 100_000;

  /** After that long a missing message is given up; longer than any message waits for another. */
  private static final int TIMEOUT_MS = 3000;

  private final CamelContext context = new DefaultCamelContext();
  private final ProducerTemplate template;
  private final Options options;

  private Camel(Options options, Run run) throws Exception {
    this.options = options;
    context.addRoutes(routes(options, run));
    context.start();
    template = context.createProducerTemplate();
  }

  private static RouteBuilder routes(Options options, Run run) {
    return new RouteBuilder() {
      @Override
      public void configure() {
        from("seda:in?size=%d&blockWhenFull=true&concurrentConsumers=%d"
                .formatted(QUEUE, options.concurrency()))
            .process(exchange -> run.work(Run.indexOf(exchange.getMessage().getBody(byte[].class))))
            .toD("direct:key-${header." + KEY + "}");
        for (int key = 0; key < options.keys(); key++) {
          from("direct:key-" + key)
              .resequence(header(SEQUENCE))
              .stream()
              .capacity(CAPACITY)
              .timeout(TIMEOUT_MS)
              .process(exchange -> run.done(exchange.getMessage().getBody(byte[].class)));
        }
      }
    };
  }

  @Override
  public String name() {
    return "Camel";
  }

  @Override
  public void send(int index, byte[] body) {
    long sequence = index / options.keys();
    template.sendBodyAndHeaders(
        "seda:in?size=%d&blockWhenFull=true&waitForTaskToComplete=Never".formatted(QUEUE),
        body,
        Map.of(SEQUENCE, sequence, KEY, index % options.keys()));
  }

  @Override
  public void flush() {}

  @Override
  public void close() {
    context.stop();
  }

  public static void main(String[] arguments) throws Exception {
    Options options = Options.parse(arguments);
    Run run = new Run(options);
    try (Camel peer = new Camel(options, run)) {
      run.measure(peer);
    }
    // Threads of the library may linger.
    System.exit(0);
  }
}
