// A client of AMQP 1.0 that knows nothing of Service Bus: it signs in by PLAIN, sends and receives.
const rhea = require("rhea");

const connection = rhea.connect({
  host: process.env.HOST, port: Number(process.env.PORT), username: process.env.KEY_NAME, password: process.env.KEY, reconnect: false,
});
const seen = [];

connection.on("connection_open", () => {
  connection.open_receiver({ source: "orders", autoaccept: false, credit_window: 0 }).add_credit(3);
  connection.open_sender("orders");
});
connection.once("sendable", ({ sender }) => {
  for (const body of ["text", { map: [1, 2] }, rhea.message.data_section(Buffer.from([0, 255]))]) {
    sender.send({ body, message_id: rhea.types.wrap_ulong(7), application_properties: { n: rhea.types.wrap_short(5) } });
  }
});
connection.on("message", ({ message, delivery, receiver }) => {
  seen.push([message.message_id, message.application_properties.n, message.body.typecode ? [...message.body.content] : message.body]);
  delivery.accept();
  if (seen.length === 3) {
    console.log(JSON.stringify(seen));
    receiver.connection.close();
  }
});
connection.on("disconnected", ({ error }) => { if (error) { console.log(JSON.stringify(String(error))); process.exit(1); } });
