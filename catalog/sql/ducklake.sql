-- The metadata tables of DuckLake 1.0, in the layout that its specification gives ("Tables", DuckLake specification
-- 1.0; equal to what DuckDB 1.5's `ducklake` extension creates). The schema's name begins with pg_ so that psql,
-- pg_dump and every catalog browser skip it.

CREATE SCHEMA pg_ducklake;

CREATE TABLE pg_ducklake.ducklake_column (
    column_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    table_id bigint,
    column_order bigint,
    column_name varchar,
    column_type varchar,
    initial_default varchar,
    default_value varchar,
    nulls_allowed boolean,
    parent_column bigint,
    default_value_type varchar,
    default_value_dialect varchar
);

CREATE TABLE pg_ducklake.ducklake_column_mapping (
    mapping_id bigint,
    table_id bigint,
    type varchar
);

CREATE TABLE pg_ducklake.ducklake_column_tag (
    table_id bigint,
    column_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    key varchar,
    value varchar
);

CREATE TABLE pg_ducklake.ducklake_file_column_stats (
    data_file_id bigint,
    table_id bigint,
    column_id bigint,
    column_size_bytes bigint,
    value_count bigint,
    null_count bigint,
    min_value varchar,
    max_value varchar,
    contains_nan boolean,
    extra_stats varchar
);

CREATE TABLE pg_ducklake.ducklake_file_variant_stats (
    data_file_id bigint,
    table_id bigint,
    column_id bigint,
    variant_path varchar,
    shredded_type varchar,
    column_size_bytes bigint,
    value_count bigint,
    null_count bigint,
    min_value varchar,
    max_value varchar,
    contains_nan boolean,
    extra_stats varchar
);

CREATE TABLE pg_ducklake.ducklake_files_scheduled_for_deletion (
    data_file_id bigint,
    path varchar,
    path_is_relative boolean,
    schedule_start timestamptz
);

CREATE TABLE pg_ducklake.ducklake_inlined_data_tables (
    table_id bigint,
    table_name varchar,
    schema_version bigint
);

CREATE TABLE pg_ducklake.ducklake_macro (
    schema_id bigint,
    macro_id bigint,
    macro_name varchar,
    begin_snapshot bigint,
    end_snapshot bigint
);

CREATE TABLE pg_ducklake.ducklake_macro_impl (
    macro_id bigint,
    impl_id bigint,
    dialect varchar,
    sql varchar,
    type varchar
);

CREATE TABLE pg_ducklake.ducklake_macro_parameters (
    macro_id bigint,
    impl_id bigint,
    column_id bigint,
    parameter_name varchar,
    parameter_type varchar,
    default_value varchar,
    default_value_type varchar
);

CREATE TABLE pg_ducklake.ducklake_metadata (
    key varchar NOT NULL,
    value varchar NOT NULL,
    scope varchar,
    scope_id bigint
);

CREATE TABLE pg_ducklake.ducklake_name_mapping (
    mapping_id bigint,
    column_id bigint,
    source_name varchar,
    target_field_id bigint,
    parent_column bigint,
    is_partition boolean
);

CREATE TABLE pg_ducklake.ducklake_partition_column (
    partition_id bigint,
    table_id bigint,
    partition_key_index bigint,
    column_id bigint,
    transform varchar
);

CREATE TABLE pg_ducklake.ducklake_partition_info (
    partition_id bigint,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint
);

CREATE TABLE pg_ducklake.ducklake_schema (
    schema_id bigint PRIMARY KEY,
    schema_uuid uuid,
    begin_snapshot bigint,
    end_snapshot bigint,
    schema_name varchar,
    path varchar,
    path_is_relative boolean
);

CREATE TABLE pg_ducklake.ducklake_schema_versions (
    begin_snapshot bigint,
    schema_version bigint,
    table_id bigint
);

CREATE TABLE pg_ducklake.ducklake_snapshot (
    snapshot_id bigint PRIMARY KEY,
    snapshot_time timestamptz,
    schema_version bigint,
    next_catalog_id bigint,
    next_file_id bigint
);

CREATE TABLE pg_ducklake.ducklake_snapshot_changes (
    snapshot_id bigint PRIMARY KEY,
    changes_made varchar,
    author varchar,
    commit_message varchar,
    commit_extra_info varchar
);

CREATE TABLE pg_ducklake.ducklake_sort_expression (
    sort_id bigint,
    table_id bigint,
    sort_key_index bigint,
    expression varchar,
    dialect varchar,
    sort_direction varchar,
    null_order varchar
);

CREATE TABLE pg_ducklake.ducklake_sort_info (
    sort_id bigint,
    table_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint
);

CREATE TABLE pg_ducklake.ducklake_table (
    table_id bigint,
    table_uuid uuid,
    begin_snapshot bigint,
    end_snapshot bigint,
    schema_id bigint,
    table_name varchar,
    path varchar,
    path_is_relative boolean
);

CREATE TABLE pg_ducklake.ducklake_table_column_stats (
    table_id bigint,
    column_id bigint,
    contains_null boolean,
    contains_nan boolean,
    min_value varchar,
    max_value varchar,
    extra_stats varchar
);

CREATE TABLE pg_ducklake.ducklake_table_stats (
    table_id bigint,
    record_count bigint,
    next_row_id bigint,
    file_size_bytes bigint
);

CREATE TABLE pg_ducklake.ducklake_tag (
    object_id bigint,
    begin_snapshot bigint,
    end_snapshot bigint,
    key varchar,
    value varchar
);

CREATE TABLE pg_ducklake.ducklake_view (
    view_id bigint,
    view_uuid uuid,
    begin_snapshot bigint,
    end_snapshot bigint,
    schema_id bigint,
    view_name varchar,
    dialect varchar,
    sql varchar,
    column_aliases varchar
);

CREATE INDEX ON pg_ducklake.ducklake_table (table_id);
CREATE INDEX ON pg_ducklake.ducklake_column (table_id);
CREATE INDEX ON pg_ducklake.ducklake_inlined_data_tables (table_id);
CREATE INDEX ON pg_ducklake.ducklake_schema_versions (table_id, schema_version);
CREATE INDEX ON pg_ducklake.ducklake_file_column_stats (table_id, data_file_id);
CREATE INDEX ON pg_ducklake.ducklake_partition_column (table_id);
CREATE INDEX ON pg_ducklake.ducklake_partition_info (table_id);
CREATE INDEX ON pg_ducklake.ducklake_table_stats (table_id);
CREATE INDEX ON pg_ducklake.ducklake_table_column_stats (table_id, column_id);
