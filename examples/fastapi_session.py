"""A FastAPI application whose request stores an order and sends a message in one asynchronous SQLAlchemy session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Annotated

import httpx
from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from pgqueue import Message, embedded
from pgqueue.aio import QueueClient


class Model(DeclarativeBase):
    pass


class Order(Model):
    __tablename__ = "example_fastapi_order"

    id: Mapped[int] = mapped_column(primary_key=True)
    city: Mapped[str]


class Placed(BaseModel):
    id: int
    city: str


dsn = os.environ.get("PGQUEUE_DSN") or embedded.start()
engine = create_async_engine(dsn.replace("postgresql://", "postgresql+psycopg://", 1))
client = QueueClient(engine)
orders = client.queue("example-fastapi-orders", body_type=Placed)
app = FastAPI()


async def open_session() -> AsyncIterator[AsyncSession]:
    async with AsyncSession(engine) as session:
        yield session


@app.post("/orders", status_code=202)
async def place_order(placed: Placed, session: Annotated[AsyncSession, Depends(open_session)]) -> None:
    try:
        async with session.begin():
            await orders.send(Message(placed, subject="placed"), transaction=session)
            session.add(Order(**placed.model_dump()))
    except IntegrityError:  # the message was rolled back with the order
        raise HTTPException(409, "this order is placed already") from None


async def main() -> None:
    await client.migrate()
    async with engine.begin() as connection:
        await connection.run_sync(Model.metadata.create_all)
    await client.create_queue("example-fastapi-orders")

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as browser:
        answers = [await browser.post("/orders", json={"id": 7, "city": "Basel"}) for _ in range(2)]
    (sent,) = await orders.receive(max_messages=9)
    print(f"answers: {[each.status_code for each in answers]}; sent: {sent.body!r}")

    await client.delete_queue("example-fastapi-orders")
    async with engine.begin() as connection:
        await connection.run_sync(Model.metadata.drop_all)
    await client.close()
    await engine.dispose()


asyncio.run(main())
