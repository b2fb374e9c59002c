package org.apache.hadoop.fs.s3a;

import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * Stands in for Hadoop's file system of object stores, under its name: reads whole objects and parts of them, by the
 * settings that Hadoop's own takes. It names its key and proves nothing: the stores of tests ask for no proof.
 */
public class S3AFileSystem extends FileSystem {
  private URI name;
  private String endpoint;
  private String key;

  @Override
  public void initialize(URI of, Configuration settings) throws IOException {
    super.initialize(of, settings);
    setConf(settings);
    name = URI.create(of.getScheme() + "://" + of.getAuthority());
    endpoint = settings.getTrimmed("fs.s3a.endpoint", "");
    if (endpoint.isEmpty() || !settings.getBoolean("fs.s3a.path.style.access", false)) {
      throw new IOException("no endpoint with the bucket's name in the path");
    }
    key = System.getenv("AWS_ACCESS_KEY_ID");
    if (key == null || System.getenv("AWS_SECRET_ACCESS_KEY") == null) {
      throw new IOException("no credentials in the environment");
    }
  }

  @Override
  public String getScheme() {
    return "s3a";
  }

  @Override
  public URI getUri() {
    return name;
  }

  private HttpURLConnection ask(String method, Path path, String range) throws IOException {
    URI url = URI.create(endpoint + "/" + name.getAuthority() + path.toUri().getRawPath());
    HttpURLConnection connection = (HttpURLConnection) url.toURL().openConnection();
    connection.setRequestMethod(method);
    connection.setRequestProperty("User-Agent", "Hadoop stand-in");
    String scope = key + "/20000101/us-east-1/s3/aws4_request";
    connection.setRequestProperty(
        "Authorization", "AWS4-HMAC-SHA256 Credential=" + scope + ", SignedHeaders=host, Signature=0");
    if (range != null) {
      connection.setRequestProperty("Range", range);
    }
    if (connection.getResponseCode() == 404) {
      throw new FileNotFoundException(path.toString());
    }
    if (connection.getResponseCode() >= 300) {
      throw new IOException(path + ": " + connection.getResponseCode());
    }
    return connection;
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    HttpURLConnection answer = ask("HEAD", path, null);
    return new FileStatus(
        answer.getContentLengthLong(), false, 1, 32 << 20, answer.getLastModified(), makeQualified(path));
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    return new FileStatus[] {getFileStatus(path)};
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    return new FSDataInputStream(new Parts(path, getFileStatus(path).getLen()));
  }

  /** An object, of which one part after the other is asked for. */
  private final class Parts extends FSInputStream {
    private static final int PART = 1 << 20;
    private final Path path;
    private final long size;
    private long position;
    private byte[] part = {};
    private long start;

    Parts(Path path, long size) {
      this.path = path;
      this.size = size;
    }

    @Override
    public void seek(long to) throws IOException {
      if (to < 0 || to > size) {
        throw new EOFException(path + ": " + to);
      }
      position = to;
    }

    @Override
    public long getPos() {
      return position;
    }

    @Override
    public boolean seekToNewSource(long target) {
      return false;
    }

    private boolean fill() throws IOException {
      if (position >= size) {
        return false;
      }
      if (position < start || position >= start + part.length) {
        long last = Math.min(position + PART, size) - 1;
        try (InputStream body = ask("GET", path, "bytes=" + position + "-" + last).getInputStream()) {
          part = body.readAllBytes();
        }
        start = position;
        if (part.length != last - position + 1) {
          throw new EOFException(path + ": cut off");
        }
      }
      return true;
    }

    @Override
    public int read() throws IOException {
      return fill() ? part[(int) (position++ - start)] & 0xff : -1;
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
      if (length == 0) {
        return 0;
      }
      if (!fill()) {
        return -1;
      }
      int from = (int) (position - start);
      int count = Math.min(length, part.length - from);
      System.arraycopy(part, from, into, offset, count);
      position += count;
      return count;
    }
  }

  @Override
  public Path getWorkingDirectory() {
    return new Path(name + "/");
  }

  @Override
  public void setWorkingDirectory(Path path) {}

  private static UnsupportedOperationException readsOnly() {
    return new UnsupportedOperationException("gateways write the files of an object store, not Spark");
  }

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission rights, boolean overwrite, int buffer, short copies, long block, Progressable progress) {
    throw readsOnly();
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) {
    throw readsOnly();
  }

  @Override
  public boolean rename(Path from, Path to) {
    throw readsOnly();
  }

  @Override
  public boolean delete(Path path, boolean recursive) {
    throw readsOnly();
  }

  @Override
  public boolean mkdirs(Path path, FsPermission rights) {
    throw readsOnly();
  }
}
