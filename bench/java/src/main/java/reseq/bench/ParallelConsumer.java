package reseq.bench;

import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Confluent's Parallel Consumer on a Kafka of one node and a topic of one partition. Strict order
 * is its KEY ordering: of each key one message at a time is processed.
 */
public final class ParallelConsumer implements Peer {
  private static final String TOPIC = "bench";

  private final Options options;
  private final KafkaProducer<byte[], byte[]> producer;
  private final ParallelStreamProcessor<byte[], byte[]> processor;

  private ParallelConsumer(Options options, Run run) throws Exception {
    this.options = options;
    String address = options.address();
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
      admin.createTopics(List.of(new NewTopic(TOPIC, 1, (short) 1))).all().get();
    }
    var bytes = new ByteArraySerializer();
    producer = new KafkaProducer<>(Map.of("bootstrap.servers", address, "acks", "all"), bytes, bytes);
    processor = processor(options, address);
    processor.subscribe(List.of(TOPIC));
    processor.poll(
        context -> {
          byte[] body = context.value();
          try {
            run.work(Run.indexOf(body));
          } catch (InterruptedException interrupted) {
            throw new IllegalStateException("interrupted at work", interrupted);
          }
          run.done(body);
        });
  }

  private static ParallelStreamProcessor<byte[], byte[]> processor(Options options, String address) {
    Map<String, Object> settings =
        Map.of(
            "bootstrap.servers", address,
            "group.id", "bench",
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false);
    var bytes = new ByteArrayDeserializer();
    return ParallelStreamProcessor.createEosStreamProcessor(
        ParallelConsumerOptions.<byte[], byte[]>builder()
            .ordering(options.strict() ? ProcessingOrder.KEY : ProcessingOrder.UNORDERED)
            .maxConcurrency(options.concurrency())
            .consumer(new KafkaConsumer<>(settings, bytes, bytes))
            .build());
  }

  @Override
  public String name() {
    return "Parallel Consumer";
  }

  @Override
  public void send(int index, byte[] body) {
    byte[] key = ByteBuffer.allocate(Integer.BYTES).putInt(index % options.keys()).array();
    producer.send(
        new ProducerRecord<>(TOPIC, key, body),
        (accepted, error) -> {
          if (error != null) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
          }
        });
  }

  @Override
  public void flush() {
    producer.flush();
  }

  @Override
  public void close() {
    processor.closeDontDrainFirst();
    producer.close();
  }

  public static void main(String[] arguments) throws Exception {
    Options options = Options.parse(arguments);
    Run run = new Run(options);
    try (ParallelConsumer peer = new ParallelConsumer(options, run)) {
      run.measure(peer);
    }
    // Threads of the library may linger.
    System.exit(0);
  }
}
