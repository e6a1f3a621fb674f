package reseq.bench;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * One run: a warm-up, for the compiler at run time and for what waits at its first message, then
 * the messages that count.
 */
final class Run {
  private static final int LINUX_TICKS_A_SECOND = 100;
  private static final int WARM_UP_SHARE = 10;

  private final Options options;
  private final int[] highest;
  private long[] latencies;
  private int count;
  private int outOfOrder;
  private volatile int first;
  private CountDownLatch finished;

  Run(Options options) {
    this.options = options;
    this.highest = new int[options.keys()];
    Arrays.fill(highest, -1);
  }

  /** Does the work of a message, which is to wait. */
  void work(int index) throws InterruptedException {
    if (options.workMaxUs() > 0) {
      TimeUnit.MICROSECONDS.sleep(options.workOf(index - first));
    }
  }

  static int indexOf(byte[] body) {
    return ByteBuffer.wrap(body).getInt(0);
  }

  synchronized void done(byte[] body) {
    ByteBuffer message = ByteBuffer.wrap(body);
    int index = message.getInt(0);
    int key = index % options.keys();
    if (index < highest[key]) {
      outOfOrder++;
    } else {
      highest[key] = index;
    }
    latencies[count++] = System.nanoTime() - message.getLong(Integer.BYTES);
    finished.countDown();
  }

  void measure(Peer peer) throws Exception {
    // At a rate the peer is not at its limit, and the first message of each key is enough.
    int share = options.rate() > 0 ? 0 : options.messages() / WARM_UP_SHARE;
    int warmUp = Math.max(options.keys(), share / options.keys() * options.keys());
    phase(peer, 0, warmUp, 0);
    long store = storeCpu();
    long client = clientCpu();
    long start = System.nanoTime();
    phase(peer, warmUp, options.messages(), options.rate());
    double seconds = (System.nanoTime() - start) / 1e9;
    print(peer, seconds, storeCpu() - store, clientCpu() - client);
  }

  private void phase(Peer peer, int first, int messages, int rate) throws Exception {
    this.first = first;
    synchronized (this) {
      latencies = new long[messages];
      count = 0;
      outOfOrder = 0;
      finished = new CountDownLatch(messages);
    }
    long start = System.nanoTime();
    for (int at = 0; at < messages; at++) {
      long due = rate > 0 ? start + at * 1_000_000_000L / rate : System.nanoTime();
      for (long wait = due - System.nanoTime(); wait > 0; wait = due - System.nanoTime()) {
        LockSupport.parkNanos(wait);
      }
      // It carries when it was to be sent, so that a late producer does not hide the wait.
      ByteBuffer body = ByteBuffer.allocate(Peer.BODY_BYTES).putInt(first + at).putLong(due);
      peer.send(first + at, body.array());
    }
    peer.flush();
    finished.await();
  }

  private void print(Peer peer, double seconds, long storeUs, long clientUs) {
    Arrays.sort(latencies);
    System.out.printf(
        Locale.ROOT,
        "{\"peer\":\"%s\",\"case\":\"%s\",\"messages\":%d,\"messages_per_s\":%.0f,\"in_order\":%b,"
            + "\"out_of_order\":%d,\"latency_us\":{\"p50\":%d,\"p99\":%d},"
            + "\"cpu_us_per_message\":{\"store\":%s,\"client\":%.1f}}%n",
        peer.name(),
        options.caseName(),
        options.messages(),
        options.messages() / seconds,
        outOfOrder == 0,
        outOfOrder,
        quantileUs(0.5),
        quantileUs(0.99),
        options.storePid() == 0 ? "null" : "%.1f".formatted((double) storeUs / options.messages()),
        (double) clientUs / options.messages());
  }

  private long quantileUs(double q) {
    return latencies[(int) Math.ceil(q * latencies.length) - 1] / 1000;
  }

  private long storeCpu() throws IOException {
    if (options.storePid() == 0) {
      return 0;
    }
    String stat = Files.readString(Path.of("/proc/" + options.storePid() + "/stat"));
    String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
    long ticks = Long.parseLong(fields[11]) + Long.parseLong(fields[12]);
    return ticks * 1_000_000 / LINUX_TICKS_A_SECOND;
  }

  private static long clientCpu() {
    var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    return system.getProcessCpuTime() / 1000;
  }
}
