import { expect, test } from 'bun:test'
import type { Json } from '../../../src/base/json.ts'
import { type EventLog, EventLogs } from '../../../src/resources/responses/event-log.ts'

const render = (response: Json, number: number) => `${response.status} ${number}\n\n`

const read = (log: EventLog, after: number) =>
  Array.fromAsync({ [Symbol.asyncIterator]: () => log.read(after) })

test('each reader gets all events after a number, those to come too', async () => {
  const log = new EventLogs().open('a', render)
  log.append('0\n\n1\n\n')
  const all = read(log, -1)
  const later = read(log, 2)
  log.append('2\n\n')
  await Promise.resolve()
  log.end('3\n\n4\n\n')
  log.append('5\n\n')
  expect((await all).join('')).toBe('0\n\n1\n\n2\n\n3\n\n4\n\n')
  expect((await later).join('')).toBe('3\n\n4\n\n')
  expect(await read(log, 4)).toEqual([])
  expect(await read(log, 99)).toEqual([])
})

test('keeps the last events of one, and cuts off who has fallen behind', async () => {
  const logs = new EventLogs({ one: 24, all: 1_000 })
  const log = logs.open('a', render)
  log.append('0\n\n')
  const slow = log.read(-1)
  await slow.next()
  for (let number = 1; number < 100; number++) log.append(`${number}\n\n`)
  expect(log.size).toBeLessThanOrEqual(24)
  expect(await slow.next()).toEqual({ done: true, value: undefined })
  expect(() => log.read(0)).toThrow('are no longer kept; poll the response')
  log.end()
  expect((await read(log, 97)).join('')).toBe('98\n\n99\n\n')
})

test('those that have ended go first, and then what grows loses its own', async () => {
  const logs = new EventLogs({ one: 100, all: 40 })
  const [ended, quiet, growing] = [
    logs.open('ended', render),
    logs.open('quiet', render),
    logs.open('growing', render),
  ]
  ended.end('0\n\n1\n\n')
  quiet.append('0\n\n')
  for (let number = 0; number < 50; number++) growing.append(`${number}\n\n`)
  expect(logs.get('ended')).toBeUndefined()
  expect(ended.size + quiet.size + growing.size).toBeLessThanOrEqual(40)
  expect((await quiet.read(-1).next()).value).toBe('0\n\n')
  expect(growing.size).toBeGreaterThan(30)
})
