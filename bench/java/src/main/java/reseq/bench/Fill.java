package reseq.bench;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Creates topics, and fills the first of them: {@code Fill ADDRESS PARTITIONS RECORDS KEYS BYTES TOPIC...}. */
public final class Fill {
  private Fill() {}

  public static void main(String[] arguments) throws Exception {
    String address = arguments[0];
    int partitions = Integer.parseInt(arguments[1]);
    int records = Integer.parseInt(arguments[2]);
    int keys = Integer.parseInt(arguments[3]);
    int bytes = Integer.parseInt(arguments[4]);
    List<NewTopic> topics = new ArrayList<>();
    for (int at = 5; at < arguments.length; at++) {
      topics.add(new NewTopic(arguments[at], partitions, (short) 1));
    }
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
      admin.createTopics(topics).all().get();
    }
    var serializer = new ByteArraySerializer();
    Map<String, Object> settings =
        Map.of("bootstrap.servers", address, "acks", "all", "linger.ms", 10, "batch.size", 65536);
    try (var producer = new KafkaProducer<>(settings, serializer, serializer)) {
      for (int index = 0; index < records; index++) {
        String start = "{\"n\":" + index + ",\"pad\":\"";
        byte[] body = (start + "x".repeat(bytes - start.length() - 2) + "\"}").getBytes(StandardCharsets.UTF_8);
        byte[] key = ("key-" + index % keys).getBytes(StandardCharsets.UTF_8);
        producer.send(
            new ProducerRecord<>(arguments[5], key, body),
            (accepted, error) -> {
              if (error != null) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
              }
            });
      }
    }
  }
}
