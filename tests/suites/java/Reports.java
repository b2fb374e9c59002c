import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClasspathRoots;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.ClassNameFilter;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs the tests of a folder of classes: {@code Reports FOLDER REPORT PATTERN}. The report, in JUnit's form, is written
 * every ten seconds, so that a run that is ended has one as well.
 */
public final class Reports implements TestExecutionListener {
  private static final int FAILURE_LENGTH_MAX = 6000;

  private static final long WRITTEN_EVERY_NANOS = 10_000_000_000L;

  private final Path report;
  private long written = System.nanoTime();
  private final List<String> cases = new ArrayList<>();

  private Reports(Path report) {
    this.report = report;
  }

  public static void main(String[] given) throws IOException {
    Reports reports = new Reports(Path.of(given[1]));
    Launcher launcher = LauncherFactory.create();
    launcher.execute(
        LauncherDiscoveryRequestBuilder.request()
            .selectors(selectClasspathRoots(Set.of(Path.of(given[0]))))
            .filters(ClassNameFilter.includeClassNamePatterns(given[2]))
            .configurationParameter("junit.jupiter.execution.timeout.default", "60 s")
            .configurationParameter("junit.jupiter.execution.timeout.thread.mode.default", "SEPARATE_THREAD")
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .build(),
        reports);
    reports.write();
    System.exit(0);
  }

  @Override
  public void executionSkipped(TestIdentifier test, String reason) {
    cases.add(begun(test) + "><skipped/></testcase>");
  }

  @Override
  public void executionFinished(TestIdentifier test, TestExecutionResult result) {
    boolean failed = result.getStatus() == TestExecutionResult.Status.FAILED;
    if (test.isTest() || failed) {
      String outcome = switch (result.getStatus()) {
        case SUCCESSFUL -> "/>";
        case ABORTED -> "><skipped/></testcase>";
        case FAILED -> "><failure>" + escaped(text(result)) + "</failure></testcase>";
      };
      cases.add(begun(test) + outcome);
    }
    if (System.nanoTime() - written > WRITTEN_EVERY_NANOS) {
      write();
    }
    if (test.getSource().filter(ClassSource.class::isInstance).isPresent()) {
      System.out.println(test.getLegacyReportingName() + " " + cases.size());
    }
  }

  private static String begun(TestIdentifier test) {
    String owner = test.getSource()
        .map(source -> source instanceof MethodSource method
            ? method.getClassName() + "." + method.getMethodName()
            : source instanceof ClassSource kind ? kind.getClassName() : "")
        .orElse("");
    String parameters = test.getUniqueId().replaceAll("^.*?/\\[class:", "[class:");
    return "<testcase classname=\"" + escaped(owner) + "\" name=\""
        + escaped(test.getDisplayName() + " " + parameters) + "\"";
  }

  private static String text(TestExecutionResult result) {
    StringWriter text = new StringWriter();
    result.getThrowable().ifPresent(thrown -> thrown.printStackTrace(new PrintWriter(text)));
    String whole = text.toString();
    return whole.substring(0, Math.min(whole.length(), FAILURE_LENGTH_MAX));
  }

  private static String escaped(String text) {
    String known = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\"", "&quot;");
    return known.replaceAll("[^\\x09\\x0a\\x20-\\x7e]", "?");
  }

  private void write() {
    written = System.nanoTime();
    try {
      Files.writeString(report, "<testsuite>\n" + String.join("\n", cases) + "\n</testsuite>\n");
    } catch (IOException problem) {
      throw new IllegalStateException(problem);
    }
  }
}
