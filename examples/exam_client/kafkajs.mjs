// Adapter of `brokertwin exam-client` for KafkaJS.
import { Kafka, logLevel } from "kafkajs";

const { EXAM_NAME: name, EXAM_TOPIC: topic, EXAM_GROUP: groupId } = process.env;
const count = Number(process.env.EXAM_COUNT);
const partitions = Number(process.env.EXAM_PARTITIONS);
const kafka = new Kafka({
  clientId: name, brokers: [process.env.EXAM_BOOTSTRAP], logLevel: logLevel.ERROR,
});

async function produce() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (let number = 0; number < count; number++) {
    const value = `${name}-${number}`;
    await producer.send({ topic, messages: [{ value, partition: number % partitions }] });
    console.log("acked", value);
  }
  await producer.disconnect();
}

async function transact() {
  const transactionalId = process.env.EXAM_TRANSACTIONAL_ID;
  const producer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (let number = 0; number < count; number++) {
    const transaction = await producer.transaction();
    const messages = [0, 1, 2].map((index) => ({
      value: `${name}-${number}-${index}`, partition: (number + index) % partitions,
    }));
    await transaction.send({ topic, messages });
    if (number % 3 === 2) {
      await transaction.abort();
      console.log("aborted", number);
    } else {
      await transaction.commit();
      console.log("committed", number);
    }
  }
  await producer.disconnect();
}

async function consume() {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 2000 });
  process.once("SIGTERM", () => consumer.disconnect().finally(() => process.exit(0)));
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ partition, message }) =>
      console.log("read", partition, message.offset, message.value.toString()),
  });
}

await { produce, transact, consume }[process.env.EXAM_WORK]();
