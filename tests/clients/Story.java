import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Array;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.JDBCType;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.util.PGobject;
import org.postgresql.util.PSQLException;

/**
 * Does with pgjdbc what the lines of standard input ask for, and prints what came of it.
 *
 * A line is fields between tabs, with \t, \n, \r, \\ for those characters and \N for null. `run SQL (TYPE VALUE)...`
 * executes a prepared statement; `batch SQL COUNT (TYPE...) (VALUE...)...` many rows of one; `copy SQL DATA` copies in;
 * `stream SQL FETCH_SIZE OTHER_SQL` reads a large result in portions; `transact TABLE LEVEL commit|rollback` changes a
 * table of numbers and texts without autocommit; `call SQL INDEX:TYPE,... alone|block (INDEX TYPE VALUE)...` calls a
 * function or procedure, and prints its outputs, the rows of cursors among them; `columns SCHEMA TABLE` asks the metadata. Values come and go as
 * PostgreSQL's texts; what is between is Java's.
 */
public final class Story {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final DateTimeFormatter SECONDS = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss");

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                List<String> fields = new ArrayList<>();
                for (String field : line.split("\t", -1)) {
                    fields.add(unescape(field));
                }
                try {
                    perform(connection, fields);
                } catch (SQLException error) {
                    // A batch's exception holds the server's.
                    var own = error instanceof PSQLException direct ? direct : (PSQLException) error.getCause();
                    var server = own.getServerErrorMessage();
                    print("error", error.getSQLState(), server == null ? own.getMessage() : server.getConstraint(),
                        server == null ? null : server.getColumn());
                }
                print("end");
            }
        }
    }

    private static void perform(Connection connection, List<String> fields) throws Exception {
        String sql = fields.get(1);
        switch (fields.get(0)) {
            case "run" -> {
                try (PreparedStatement statement = connection.prepareStatement(sql)) {
                    for (int i = 2; i < fields.size(); i += 2) {
                        set(connection, statement, i / 2, fields.get(i), fields.get(i + 1));
                    }
                    if (statement.execute()) {
                        printRows(statement.getResultSet());
                    } else {
                        print("count", String.valueOf(statement.getUpdateCount()));
                    }
                }
            }
            case "batch" -> {
                int count = Integer.parseInt(fields.get(2));
                List<String> types = fields.subList(3, 3 + count);
                try (PreparedStatement statement = connection.prepareStatement(sql)) {
                    for (int i = 3 + count; i < fields.size(); i += count) {
                        for (int column = 0; column < count; column++) {
                            set(connection, statement, column + 1, types.get(column), fields.get(i + column));
                        }
                        statement.addBatch();
                    }
                    int rows = 0;
                    for (int one : statement.executeBatch()) {
                        rows += one;
                    }
                    print("count", String.valueOf(rows));
                }
            }
            case "copy" -> {
                var copies = connection.unwrap(PGConnection.class).getCopyAPI();
                print("count", String.valueOf(copies.copyIn(sql, new StringReader(fields.get(2)))));
            }
            case "stream" -> {
                // Row by row within a transaction, the driver asking for so many at a time; a second statement between.
                connection.setAutoCommit(false);
                try (PreparedStatement statement = connection.prepareStatement(sql);
                        PreparedStatement other = connection.prepareStatement(fields.get(3))) {
                    statement.setFetchSize(Integer.parseInt(fields.get(2)));
                    long rows = 0, sum = 0, characters = 0, others = 0;
                    try (ResultSet result = statement.executeQuery()) {
                        while (result.next()) {
                            sum += result.getLong(1);
                            characters += result.getString(2).length();
                            if (++rows % 50000 == 0) {
                                try (ResultSet answer = other.executeQuery()) {
                                    answer.next();
                                    others += answer.getLong(1);
                                }
                            }
                        }
                    }
                    print("streamed", String.valueOf(rows), String.valueOf(sum), String.valueOf(characters),
                        String.valueOf(others));
                    connection.commit();
                } finally {
                    connection.setAutoCommit(true);
                }
            }
            case "transact" -> {
                transact(connection, sql, fields.get(2), fields.get(3).equals("commit"));
            }
            case "call" -> {
                call(connection, fields);
            }
            case "columns" -> {
                try (ResultSet columns = connection.getMetaData().getColumns(null, sql, fields.get(2), null)) {
                    while (columns.next()) {
                        print("row", columns.getString("COLUMN_NAME"), columns.getString("TYPE_NAME"),
                            columns.getString("DATA_TYPE"), columns.getString("COLUMN_SIZE"),
                            columns.getString("DECIMAL_DIGITS"), columns.getString("IS_NULLABLE"),
                            columns.getString("COLUMN_DEF"), columns.getString("IS_AUTOINCREMENT"));
                    }
                }
            }
            default -> throw new IllegalArgumentException(fields.get(0));
        }
    }

    private static void call(Connection connection, List<String> fields) throws SQLException {
        connection.setAutoCommit(fields.get(3).equals("alone"));
        try (CallableStatement statement = connection.prepareCall(fields.get(1))) {
            String[] outputs = fields.get(2).isEmpty() ? new String[0] : fields.get(2).split(",");
            for (String output : outputs) {
                String[] parts = output.split(":");
                statement.registerOutParameter(Integer.parseInt(parts[0]), JDBCType.valueOf(parts[1]).getVendorTypeNumber());
            }
            for (int i = 4; i < fields.size(); i += 3) {
                set(connection, statement, Integer.parseInt(fields.get(i)), fields.get(i + 1), fields.get(i + 2));
            }
            statement.execute();
            for (String output : outputs) {
                Object value = statement.getObject(Integer.parseInt(output.split(":")[0]));
                if (value instanceof ResultSet rows) {
                    while (rows.next()) {
                        print("row", rows.getString(1), rows.getString(2));
                    }
                } else {
                    print("out", value == null ? null : value.toString());
                }
            }
            if (!connection.getAutoCommit()) {
                connection.commit();
            }
        } catch (SQLException error) {
            if (!connection.getAutoCommit()) {
                connection.rollback();
            }
            throw error;
        } finally {
            connection.setAutoCommit(true);
        }
    }

    private static void transact(Connection connection, String table, String level, boolean commit) throws SQLException {
        connection.setAutoCommit(false);
        connection.setTransactionIsolation(Integer.parseInt(level));
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO " + table + " VALUES (?, ?)");
                Statement other = connection.createStatement();
                PreparedStatement rows = connection.prepareStatement("SELECT n, t FROM " + table + " ORDER BY n")) {
            for (int n = 1; n <= 10; n++) {
                insert.setInt(1, n);
                insert.setString(2, "row " + n);
                insert.addBatch();
            }
            int inserted = 0;
            for (int one : insert.executeBatch()) {
                inserted += one;
            }
            Savepoint emptied = connection.setSavepoint("emptied");
            int deleted = other.executeUpdate("DELETE FROM " + table);
            connection.rollback(emptied);
            Savepoint twice = connection.setSavepoint();
            String refused = null;
            try {
                insert.setInt(1, 3);
                insert.setString(2, "again");
                insert.executeUpdate();
            } catch (SQLException error) {
                refused = error.getSQLState();
                connection.rollback(twice);
            }
            // Rows that are changed while they are fetched are read as they were when the query began.
            rows.setFetchSize(3);
            StringBuilder seen = new StringBuilder();
            try (ResultSet result = rows.executeQuery()) {
                while (result.next()) {
                    int n = result.getInt(1);
                    seen.append(n).append(result.getString(2).equals("row " + n) ? " " : "? ");
                    if (n % 5 == 0) {
                        other.executeUpdate("UPDATE " + table + " SET t = 'changed' WHERE n > " + n);
                    }
                }
            }
            print("transacted", String.valueOf(inserted), String.valueOf(deleted), refused, seen.toString().trim(),
                String.valueOf(connection.getTransactionIsolation()));
            if (commit) {
                connection.commit();
            } else {
                connection.rollback();
            }
        } finally {
            connection.setAutoCommit(true);
        }
    }

    private static void set(Connection connection, PreparedStatement statement, int index, String type, String text)
            throws SQLException {
        String base = type.replaceAll("\\(.*\\)", "");
        if (text == null) {
            statement.setNull(index, Types.NULL);
            return;
        }
        switch (base) {
            case "smallint" -> statement.setShort(index, Short.parseShort(text));
            case "integer" -> statement.setInt(index, Integer.parseInt(text));
            case "bigint" -> statement.setLong(index, Long.parseLong(text));
            case "numeric" -> {
                if (text.equals("NaN")) {
                    statement.setDouble(index, Double.NaN); // BigDecimal has none
                } else {
                    statement.setBigDecimal(index, new BigDecimal(text));
                }
            }
            case "real" -> statement.setFloat(index, Float.parseFloat(text));
            case "double precision" -> statement.setDouble(index, Double.parseDouble(text));
            case "text", "varchar", "char" -> statement.setString(index, text);
            case "bytea" -> statement.setBytes(index, java.util.HexFormat.of().parseHex(text.substring(2)));
            case "boolean" -> statement.setBoolean(index, text.equals("t"));
            case "date" -> statement.setObject(index, LocalDate.parse(text));
            case "time" -> statement.setObject(index, LocalTime.parse(text));
            case "timestamp" -> statement.setObject(index, LocalDateTime.parse(text.replace(' ', 'T')));
            case "timestamptz" -> statement.setObject(index, OffsetDateTime.parse(text.replace(' ', 'T')));
            case "uuid" -> statement.setObject(index, UUID.fromString(text));
            case "integer[]", "text[]" -> statement.setObject(index, text, Types.OTHER);
            default -> {
                PGobject object = new PGobject();
                object.setType(base);
                object.setValue(text);
                statement.setObject(index, object);
            }
        }
    }

    private static void printRows(ResultSet rows) throws SQLException {
        ResultSetMetaData metadata = rows.getMetaData();
        int count = metadata.getColumnCount();
        while (rows.next()) {
            String[] fields = new String[1 + 2 * count];
            fields[0] = "row";
            for (int column = 1; column <= count; column++) {
                Object value = rows.getObject(column);
                fields[2 * column - 1] = value == null ? null : value.getClass().getSimpleName();
                fields[2 * column] = value == null ? null : text(rows, column, value, metadata.getColumnTypeName(column));
            }
            print(fields);
        }
    }

    private static String text(ResultSet rows, int column, Object value, String type) throws SQLException {
        return switch (type) {
            case "date" -> rows.getObject(column, LocalDate.class).toString();
            case "time" -> DateTimeFormatter.ofPattern("HH:mm:ss").format(rows.getObject(column, LocalTime.class))
                + fraction(rows.getObject(column, LocalTime.class).getNano());
            case "timestamp" -> {
                LocalDateTime moment = rows.getObject(column, LocalDateTime.class);
                yield SECONDS.format(moment) + fraction(moment.getNano());
            }
            case "timestamptz" -> {
                OffsetDateTime instant = rows.getObject(column, OffsetDateTime.class);
                yield SECONDS.format(instant) + fraction(instant.getNano()) + instant.getOffset().getId().replace("Z", "+00");
            }
            case "bytea" -> "\\x" + java.util.HexFormat.of().formatHex(rows.getBytes(column));
            case "bool" -> ((Boolean) value) ? "t" : "f";
            case "numeric" -> value instanceof BigDecimal number ? number.toPlainString() : value.toString();
            case "_int4", "_text" -> array((Array) value);
            case "interval" -> rows.getString(column);
            default -> value.toString();
        };
    }

    private static String fraction(int nanoseconds) {
        return nanoseconds == 0 ? "" : String.format(".%06d", nanoseconds / 1000).replaceAll("0+$", "");
    }

    private static String array(Array array) throws SQLException {
        List<String> elements = new ArrayList<>();
        for (Object element : (Object[]) array.getArray()) {
            String text = element == null ? "NULL" : element.toString();
            boolean quoted = element != null
                && (text.isEmpty() || text.equalsIgnoreCase("null") || text.matches("(?s).*[ ,{}\"\\\\\t\n\r].*"));
            elements.add(quoted ? "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"" : text);
        }
        return "{" + String.join(",", elements) + "}";
    }

    private static void print(String... fields) {
        List<String> escaped = new ArrayList<>();
        for (String field : fields) {
            escaped.add(field == null ? "\\N" : field.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
                .replace("\r", "\\r"));
        }
        OUT.println(String.join("\t", escaped));
    }

    private static final Map<Character, Character> ESCAPES = Map.of('t', '\t', 'n', '\n', 'r', '\r', '\\', '\\');

    private static String unescape(String field) {
        if (field.equals("\\N")) {
            return null;
        }
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < field.length(); i++) {
            char c = field.charAt(i);
            text.append(c == '\\' ? ESCAPES.get(field.charAt(++i)) : c);
        }
        return text.toString();
    }

    private Story() {}
}
