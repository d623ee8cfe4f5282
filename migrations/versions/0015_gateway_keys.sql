-- Keys with which clients of the gateway connect, each as a database role. A key is derived from its salt and a secret.
create table pgqueue.gateway_key (
    name       text        not null,
    role       text        not null,
    salt       bytea       not null,
    created_at timestamptz not null,
    constraint gateway_key_pkey primary key (name)
);
