// The Azure SDK for JavaScript: what each step returns, a line of JSON for each.
const { ServiceBusClient } = require("@azure/service-bus");

const client = new ServiceBusClient(process.env.CONNECTION_STRING, { retryOptions: { maxRetries: 0, timeoutInMs: 20000 } });
const HOUR = 3600 * 1000;

async function step(name, action) {
  let result;
  try {
    result = await action();
  } catch (error) {
    result = { error: error.code || error.name };
  }
  console.log(JSON.stringify([name, result === undefined ? null : result]));
}

async function some(receiver, count) {
  const found = [];
  while (found.length < count) {
    const more = await receiver.receiveMessages(count - found.length, { maxWaitTimeInMs: 10000 });
    if (more.length === 0) break;
    found.push(...more);
  }
  return found;
}

async function queues() {
  const sender = client.createSender("orders");
  const receiver = client.createReceiver("orders");
  await sender.sendMessages({ body: { id: 1 }, messageId: "m", subject: "s", applicationProperties: { n: 5, f: 1.5, t: "x", b: true } });
  await sender.sendMessages([{ body: "abandon" }, { body: "dead-letter" }, { body: Buffer.from([0, 255]) }]);
  await step("peeked", async () => (await receiver.peekMessages(10)).map((one) => one.state));
  const [first, second, third, fourth] = await some(receiver, 4);
  await step("first", async () => [first.body, first.messageId, first.subject, first.applicationProperties, first.deliveryCount]);
  await receiver.completeMessage(first);
  await receiver.abandonMessage(second, { why: "later" });
  await receiver.deadLetterMessage(third, { deadLetterReason: "Bad", deadLetterErrorDescription: "no such street", ticket: 7 });
  await receiver.deferMessage(fourth);
  await step("deferred", async () => {
    const [deferred] = await receiver.receiveDeferredMessages([fourth.sequenceNumber]);
    await receiver.completeMessage(deferred);
    return [...deferred.body];
  });
  await step("again", async () => {
    const [again] = await some(receiver, 1);
    await receiver.renewMessageLock(again);
    await receiver.completeMessage(again);
    return [again.body, again.deliveryCount, again.applicationProperties];
  });
  await step("dead", async () => {
    const [dead] = await some(client.createReceiver("orders", { subQueueType: "deadLetter" }), 1);
    return [dead.body, dead.deadLetterReason, dead.deadLetterErrorDescription, dead.applicationProperties.ticket];
  });
  await step("scheduled", async () => {
    const numbers = await sender.scheduleMessages([{ body: 1 }, { body: 2 }], new Date(Date.now() + HOUR));
    await sender.cancelScheduledMessages(numbers);
    return (await receiver.peekMessages(5)).length;
  });
  await step("nothing", async () => (await receiver.receiveMessages(2, { maxWaitTimeInMs: 300 })).length);
  await step("subscribed", async () => {
    const seen = [];
    const done = new Promise((resolve, reject) => {
      receiver.subscribe({
        processMessage: async (one) => { seen.push(one.body); if (seen.length === 5) resolve(); },
        processError: async (problem) => reject(problem.error),
      });
    });
    await sender.sendMessages([1, 2, 3, 4, 5].map((body) => ({ body })));
    await done;
    return seen;
  });
  await step("unknown", () => client.createSender("nosuch").sendMessages({ body: 1 }));
}

async function sessions() {
  await client.createSender("steps").sendMessages([{ body: 1, sessionId: "a" }, { body: 2, sessionId: "a" }]);
  const receiver = await client.acceptNextSession("steps");
  await step("session", async () => {
    const received = await some(receiver, 2);
    for (const one of received) await receiver.completeMessage(one);
    await receiver.setSessionState({ done: 2 });
    await receiver.renewSessionLock();
    return [receiver.sessionId, received.map((one) => one.body), await receiver.getSessionState()];
  });
  await receiver.close();
}

async function rules() {
  const manager = client.createRuleManager("events", "all");
  await step("rules", async () => {
    await manager.createRule("swiss", { subject: "paid", applicationProperties: { country: "CH" } }, { sqlExpression: "SET seen = 'yes'" });
    await manager.createRule("large", { sqlExpression: "amount > 100" });
    const found = [];
    for await (const rule of manager.listRules()) found.push([rule.name, rule.filter, rule.action]);
    await manager.deleteRule("$Default");
    return found;
  });
}

(async () => {
  await queues();
  await sessions();
  await rules();
  await client.close();
})();
