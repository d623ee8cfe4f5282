"""A Flask application whose request stores an order and sends a message in one SQLAlchemy session."""

from __future__ import annotations

import os

from flask import Flask, Response, request
from sqlalchemy import create_engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from pgqueue import Message, QueueClient, embedded


class Model(DeclarativeBase):
    pass


class Order(Model):
    __tablename__ = "example_flask_order"

    id: Mapped[int] = mapped_column(primary_key=True)
    city: Mapped[str]


dsn = os.environ.get("PGQUEUE_DSN") or embedded.start()
engine = create_engine(dsn.replace("postgresql://", "postgresql+psycopg://", 1))
client = QueueClient(engine)
orders = client.queue("example-flask-orders")
app = Flask(__name__)


@app.post("/orders")
def place_order() -> Response:
    try:
        with Session(engine) as session, session.begin():
            orders.send(Message(request.get_json(), subject="placed"), transaction=session)
            session.add(Order(**request.get_json()))
    except IntegrityError:  # the message was rolled back with the order
        return Response("this order is placed already", status=409)
    return Response(status=202)


client.migrate()
Model.metadata.create_all(engine)
client.create_queue("example-flask-orders")

browser = app.test_client()
statuses = [browser.post("/orders", json={"id": 7, "city": "Basel"}).status_code for _ in range(2)]
with Session(engine) as session:
    print(f"answers: {statuses}; stored: {session.query(Order).count()}; sent: {len(orders.peek(max_messages=9))}")

client.delete_queue("example-flask-orders")
Model.metadata.drop_all(engine)
client.close()
engine.dispose()
