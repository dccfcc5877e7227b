// Faults from a Node suite, with Node's own test runner and KafkaJS. In front of a real cluster, use
// `brokertwin proxy HOST:PORT --listen localhost:19092 --control-listen 9405` in place of the gateway.
//
//   brokertwin gateway --listen localhost:19092 --control-listen 9405
//   npm install kafkajs
//   node --test orders.test.mjs
import assert from 'node:assert/strict'
import { afterEach, before, test } from 'node:test'
import kafkajs from 'kafkajs'

const control = process.env.CONTROL ?? 'http://127.0.0.1:9405'
const broker = process.env.BROKER ?? 'localhost:19092'
const topic = `orders-${process.pid}`

const call = async (method, path, body) => {
  const headers = { 'Content-Type': 'application/json' }
  const response = await fetch(`${control}${path}`, { method, headers, body: JSON.stringify(body) })
  const found = await response.json()
  if (!response.ok) throw new Error(`${found.error} ${found.hint}`)
  return found
}
const addFault = async fault => (await call('POST', '/faults', fault))[0]

const kafka = new kafkajs.Kafka({
  clientId: 'orders', brokers: [broker], logLevel: kafkajs.logLevel.NOTHING,
  retry: { initialRetryTime: 50 },
})

const withAdmin = async work => {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

before(() => withAdmin(admin => admin.createTopics({ topics: [{ topic }] })))
afterEach(() => call('DELETE', '/faults'))

test('an order is written once if the response is lost', async () => {
  const lost = await addFault({ effect: 'lose', api: 'PRODUCE', topic })
  const producer = kafka.producer({ idempotent: true })
  await producer.connect()
  await producer.send({ topic, messages: [{ value: 'one' }] })
  await producer.disconnect()

  assert.equal((await call('GET', `/faults/${lost.id}?hits=1`)).hits, 1)
  assert.equal((await call('GET', '/requests?api=PRODUCE&client=orders')).length, 2)
  const [{ high }] = await withAdmin(admin => admin.fetchTopicOffsets(topic))
  assert.equal(high, '1')
})

test('a held commit is sent after its release', async () => {
  const held = await addFault({ effect: 'hold', api: 'OFFSET_COMMIT' })
  const partitions = [{ partition: 0, offset: '1' }]
  const committed = withAdmin(admin => admin.setOffsets({ groupId: topic, topic, partitions }))
  await call('GET', `/faults/${held.id}?hits=1&timeoutMs=10000`)
  await call('POST', `/faults/${held.id}/release`)
  await committed
})

test('an invalid fault is explained', async () => {
  await assert.rejects(addFault({ effect: 'lose', nht: 2 }), /no field nht. Did you mean nth/)
})
