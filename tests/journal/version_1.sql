create table schema_version (version integer primary key, applied double precision not null);
insert into schema_version values (1, 1000.0);
create table verdict_changes (
    at double precision not null, cluster text not null, namespace text not null,
    subject text not null, state text not null, previous text not null,
    confidence double precision not null, reason text not null, detail text not null,
    primary key (at, cluster, namespace, subject, state));
insert into verdict_changes values (1000.5, 'east', 'team-a', 'east/team-a/Deployment/llm', 'idle-held', 'productive',
    0.9, 'no kernel for 45 min, 73 GB held', '{"coverage": 1.0}');
create table hours (
    hour bigint not null, cluster text not null, namespace text not null, subject text not null,
    model text not null, held_gpu_hours double precision not null,
    used_gpu_hours double precision not null, idle_gpu_hours double precision not null,
    unknown_gpu_hours double precision not null, energy_joules double precision, cost double precision,
    currency text not null, owner text not null, team text not null,
    primary key (hour, cluster, namespace, subject));
insert into hours values (3600, 'east', 'team-a', 'east/team-a/Deployment/llm', 'NVIDIA H100 80GB HBM3',
    2.0, 0.5, 1.25, 0.25, 1500000.0, null, 'EUR', 'ada@example.org', 'vision');
create table episodes (
    id text not null primary key, cluster text not null, namespace text not null,
    subject text not null, state text not null, opened double precision not null,
    closed double precision, reason text not null);
insert into episodes values ('east/team-a/Deployment/llm@1000', 'east', 'team-a', 'east/team-a/Deployment/llm',
    'idle-held', 1000.5, null, 'no kernel for 45 min');
create table config_overrides (name text not null primary key, value text not null);
insert into config_overrides values ('threshold', '30');
create table config_changes (
    id integer primary key autoincrement, at double precision not null, actor text not null, name text not null,
    old text not null, new text not null);
insert into config_changes (at, actor, name, old, new) values (1000.5, 'admin', 'threshold', '20', '30');
create table analysis_state (
    id integer not null primary key check (id = 1), at double precision not null, state blob not null);
insert into analysis_state values (1, 1000.0, x'0001');
