"""Mapped objects and messages in one SQLAlchemy session, which commits both together."""

from __future__ import annotations

import os

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from pgqueue import Message, QueueClient, embedded


class Model(DeclarativeBase):
    pass


class Parcel(Model):
    __tablename__ = "example_parcel"

    id: Mapped[int] = mapped_column(primary_key=True)
    street: Mapped[str]
    is_delivered: Mapped[bool] = mapped_column(default=False)


dsn = os.environ.get("PGQUEUE_DSN") or embedded.start()
engine = create_engine(dsn.replace("postgresql://", "postgresql+psycopg://", 1))

with QueueClient(engine) as client:
    client.migrate()
    Model.metadata.create_all(engine)
    client.create_queue("example-parcels")
    parcels = client.queue("example-parcels")

    with Session(engine) as session, session.begin():
        session.add_all([Parcel(id=1, street="Hauptstraße 1"), Parcel(id=2, street="High Street 2")])
        parcels.send_batch([Message({"parcel": 1}), Message({"parcel": 2})], transaction=session)

    for received in parcels.receive(max_messages=10):
        # Begins a transaction in the session and pins the lock; at the end completes the message and commits both.
        with received.transaction(Session(engine)) as session:
            parcel = session.get_one(Parcel, received.body["parcel"])
            parcel.is_delivered = True
            print(f"delivered to {parcel.street}, at delivery {received.delivery_count}")

    client.delete_queue("example-parcels")
    Model.metadata.drop_all(engine)

engine.dispose()
