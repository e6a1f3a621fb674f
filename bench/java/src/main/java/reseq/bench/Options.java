package reseq.bench;

import java.util.HashMap;
import java.util.Map;

/** The arguments, which are the same for all peers. */
record Options(
    String caseName,
    int messages,
    int keys,
    int workMinUs,
    int workMaxUs,
    int rate,
    int seed,
    boolean strict,
    int concurrency,
    String address,
    int storePid) {

  static Options parse(String[] arguments) {
    Map<String, String> given = new HashMap<>();
    for (int at = 0; at + 1 < arguments.length; at += 2) {
      given.put(arguments[at].replaceFirst("^--", ""), arguments[at + 1]);
    }
    return new Options(
        given.get("case"),
        number(given, "messages"),
        number(given, "keys"),
        number(given, "work-min-us"),
        number(given, "work-max-us"),
        number(given, "rate"),
        number(given, "seed"),
        "strict".equals(given.get("order")),
        number(given, "concurrency"),
        given.get("address"),
        number(given, "store-pid"));
  }

  private static int number(Map<String, String> given, String name) {
    String value = given.get(name);
    if (value == null) {
      throw new IllegalArgumentException("--" + name + " is missing");
    }
    return Integer.parseInt(value);
  }

  /** The time that a message takes, in µs. The programs in Rust and Node draw the same. */
  int workOf(int index) {
    int hash = seed ^ ((index + 1) * 0x9e3779b1);
    hash = (hash ^ (hash >>> 16)) * 0x85ebca6b;
    hash = (hash ^ (hash >>> 13)) * 0xc2b2ae35;
    hash ^= hash >>> 16;
    return workMinUs + Integer.remainderUnsigned(hash, workMaxUs - workMinUs + 1);
  }
}
