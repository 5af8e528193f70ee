import java.io.FileInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Produces a record for each key (a line of hex) and prints the partition that each went to. */
public class PlaceKeys {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream in = new FileInputStream(args[0])) {
            settings.load(in);
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line : Files.readAllLines(Path.of(args[2]))) {
                byte[] key = HexFormat.of().parseHex(line);
                sent.add(producer.send(new ProducerRecord<>(args[1], key, new byte[0])));
            }
        }
        for (Future<RecordMetadata> one : sent) {
            System.out.println(one.get().partition());
        }
    }
}
