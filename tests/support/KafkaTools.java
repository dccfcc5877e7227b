// Runs Kafka's command-line tools, one after the other, in one process. Reads a document in each line, with a
// tool's class, its words and what it reads; writes one with its status and what it printed.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.utils.Exit;

public class KafkaTools {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int RUNS = -1;
    private static final int HANGS = 1000;
    private static final int NO_SUCH_TOOL = 1001;
    private static final int HOOK_MS = 10_000;

    /** Ends a tool in place of the process. */
    private static class Ended extends Error {
        Ended() {
            super("ended", null, false, false);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream told = System.out;
        Map<Thread, Thread> hooks = hooks();
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            told.println(JSON.writeValueAsString(run(JSON.readTree(line), hooks)));
            told.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static ObjectNode run(JsonNode asked, Map<Thread, Thread> hooks) throws Exception {
        AtomicInteger status = new AtomicInteger(RUNS);
        Exit.Procedure end = (code, message) -> {
            status.compareAndSet(RUNS, code);
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setIn(new ByteArrayInputStream(asked.get("text").asText().getBytes("UTF-8")));
        System.setOut(new PrintStream(out, true, "UTF-8"));
        System.setErr(new PrintStream(err, true, "UTF-8"));
        Set<Thread> others = Set.copyOf(hooks.keySet());
        Thread thread = new Thread(() -> {
            call(asked, status);
            List<Thread> own = new ArrayList<>(hooks.keySet());
            own.removeAll(others);
            own.forEach(KafkaTools::finish);
            hooks.keySet().removeAll(own);
        }, "tool");
        thread.start();
        thread.join(asked.get("timeoutMs").asLong());
        if (thread.isAlive()) {
            status.set(HANGS);
            thread.interrupt();
        }
        ObjectNode found = JSON.createObjectNode();
        found.put("status", status.get());
        found.put("out", out.toString("UTF-8"));
        found.put("err", err.toString("UTF-8"));
        return found;
    }

    /** What is to run when this process ends: each tool ends here as if it were alone. */
    @SuppressWarnings("unchecked")
    private static Map<Thread, Thread> hooks() throws ReflectiveOperationException {
        Field hooks = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        hooks.setAccessible(true);
        return (Map<Thread, Thread>) hooks.get(null);
    }

    private static void finish(Thread hook) {
        hook.setDaemon(true);
        hook.start();
        try {
            hook.join(HOOK_MS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static void call(JsonNode asked, AtomicInteger status) {
        List<String> words = new ArrayList<>();
        asked.get("words").forEach(word -> words.add(word.asText()));
        Object given = words.toArray(new String[0]);
        try {
            Class.forName(asked.get("tool").asText()).getMethod("main", String[].class).invoke(null, given);
            status.compareAndSet(RUNS, 0);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Ended)) {
                error.getCause().printStackTrace();
                status.compareAndSet(RUNS, 1);
            }
        } catch (ReflectiveOperationException error) {
            status.set(NO_SUCH_TOOL);
        }
    }
}
