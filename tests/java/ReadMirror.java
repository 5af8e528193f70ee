import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Asks Kafka's own mirror client all that it can be asked, and prints the answers as one JSON object. */
public final class ReadMirror {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private ReadMirror() {
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = read(arguments[0]);
        String remoteCluster = arguments[1];
        String group = arguments[2];
        Map<String, Object> told = new TreeMap<>();
        Set<String> upstream = RemoteClusterUtils.upstreamClusters(properties);
        told.put("upstream_clusters", new TreeSet<>(upstream));
        told.put("heartbeat_topics", new TreeSet<>(RemoteClusterUtils.heartbeatTopics(properties)));
        told.put("checkpoint_topics", new TreeSet<>(RemoteClusterUtils.checkpointTopics(properties)));
        Map<String, Integer> hops = new TreeMap<>();
        Set<String> asked = new TreeSet<>(upstream);
        asked.add(remoteCluster);
        asked.add("no-such-cluster");
        for (String alias : asked) {
            hops.put(alias, RemoteClusterUtils.replicationHops(properties, alias));
        }
        told.put("replication_hops", hops);
        told.put("offsets", rows(RemoteClusterUtils.translateOffsets(properties, remoteCluster, group, PATIENCE)));
        try (MirrorClient client = new MirrorClient(properties)) {
            told.put("remote_topics", new TreeSet<>(client.remoteTopics()));
            told.put("remote_topics_of_cluster", new TreeSet<>(client.remoteTopics(remoteCluster)));
        }
        System.out.println(new ObjectMapper().writeValueAsString(told));
    }

    private static Map<String, Object> read(String file) throws Exception {
        Properties loaded = new Properties();
        try (FileReader reader = new FileReader(file)) {
            loaded.load(reader);
        }
        Map<String, Object> properties = new HashMap<>();
        loaded.forEach((key, value) -> properties.put(key.toString(), value));
        return properties;
    }

    private static List<Map<String, Object>> rows(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<String, Map<String, Object>> sorted = new TreeMap<>();
        offsets.forEach((partition, place) -> sorted.put(
            String.format("%s %010d", partition.topic(), partition.partition()),
            Map.of(
                "topic", partition.topic(),
                "partition", partition.partition(),
                "offset", place.offset(),
                "metadata", place.metadata())));
        return new ArrayList<>(sorted.values());
    }
}
