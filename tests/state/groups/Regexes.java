// Reads lines of an expression, a tab and a name; tells + or - for a match, else what RE2/J refuses.

import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;

public class Regexes {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", 2);
            System.out.println(told(parts[0], parts[1]));
        }
    }

    private static String told(String expression, String name) {
        try {
            return Pattern.compile(expression).matcher(name).matches() ? "+" : "-";
        } catch (PatternSyntaxException error) {
            return error.getDescription();
        }
    }
}
