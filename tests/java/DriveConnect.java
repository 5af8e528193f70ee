import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.sourcelab.kafka.connect.apiclient.Configuration;
import org.sourcelab.kafka.connect.apiclient.KafkaConnectClient;
import org.sourcelab.kafka.connect.apiclient.request.dto.ConnectorPluginConfigDefinition;
import org.sourcelab.kafka.connect.apiclient.request.dto.NewConnectorDefinition;
import org.sourcelab.kafka.connect.apiclient.request.post.PostConnectorRestart;
import org.sourcelab.kafka.connect.apiclient.rest.exceptions.InvalidRequestException;

/** Calls a method of a Connect client for each line, a JSON array, and prints what the client made of the answer. */
public final class DriveConnect {
    private static final ObjectMapper JSON = new ObjectMapper();

    private DriveConnect() {
    }

    public static void main(String[] arguments) throws Exception {
        KafkaConnectClient client = new KafkaConnectClient(new Configuration(arguments[0]));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(client, JSON.readTree(line))));
        }
    }

    private static Map<String, Object> answer(KafkaConnectClient client, JsonNode asked) {
        Map<String, Object> told = new HashMap<>();
        try {
            told.put("answer", call(client, asked));
        } catch (InvalidRequestException refused) {
            told.put("thrown", refused.getClass().getSimpleName());
            told.put("code", refused.getErrorCode());
            told.put("message", refused.getMessage());
        } catch (Exception other) {
            told.put("thrown", other.toString());
        }
        return told;
    }

    private static Object call(KafkaConnectClient client, JsonNode asked) {
        String name = asked.path(1).asText();
        int task = asked.path(2).asInt();
        return switch (asked.get(0).asText()) {
            case "getConnectServerVersion" -> client.getConnectServerVersion();
            case "getConnectorPlugins" -> client.getConnectorPlugins();
            case "validateConnectorPluginConfig" -> client.validateConnectorPluginConfig(
                new ConnectorPluginConfigDefinition(name, config(asked)));
            case "addConnector" -> client.addConnector(new NewConnectorDefinition(name, config(asked)));
            case "updateConnectorConfig" -> client.updateConnectorConfig(name, config(asked));
            case "getConnectors" -> client.getConnectors();
            case "getConnectorsWithExpandedStatus" ->
                client.getConnectorsWithExpandedStatus().getMappedStatuses();
            case "getConnectorsWithExpandedInfo" -> client.getConnectorsWithExpandedInfo().getMappedDefinitions();
            case "getConnectorsWithAllExpandedMetadata" -> {
                var all = client.getConnectorsWithAllExpandedMetadata();
                yield Map.of("statuses", all.getMappedStatuses(), "definitions", all.getMappedDefinitions());
            }
            case "getConnector" -> client.getConnector(name);
            case "getConnectorConfig" -> client.getConnectorConfig(name);
            case "getConnectorStatus" -> client.getConnectorStatus(name);
            case "getConnectorTasks" -> client.getConnectorTasks(name);
            case "getConnectorTaskStatus" -> client.getConnectorTaskStatus(name, task);
            case "getConnectorTopics" -> client.getConnectorTopics(name);
            case "resetConnectorTopics" -> client.resetConnectorTopics(name);
            case "restartConnector" -> client.restartConnector(name);
            case "restartConnectorWithTasks" -> client.restartConnector(
                new PostConnectorRestart(name).withIncludeTasks(true).withOnlyFailed(asked.path(2).asBoolean()));
            case "restartConnectorTask" -> client.restartConnectorTask(name, task);
            case "pauseConnector" -> client.pauseConnector(name);
            case "resumeConnector" -> client.resumeConnector(name);
            case "deleteConnector" -> client.deleteConnector(name);
            default -> throw new IllegalArgumentException(asked.toString());
        };
    }

    private static Map<String, String> config(JsonNode asked) {
        Map<String, String> config = new HashMap<>();
        asked.get(2).fields().forEachRemaining(field -> config.put(field.getKey(), field.getValue().asText()));
        return config;
    }
}
