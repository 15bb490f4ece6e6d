import { afterAll, afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Gateway } from '../../../src/app/gateway.ts'
import { createRandomIds } from '../../../src/base/ids.ts'
import { addCredit } from '../../../src/limits/credits.ts'
import { getOperator, identify } from '../../../src/resources/actor.ts'
import { createKey, deleteKey } from '../../../src/resources/keys.ts'
import { testGateway } from '../../support/gateway.ts'
import { openSlowStore } from '../../support/slow-store.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-catch-up-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))
let files = 0
const newPath = () => join(directory, `${++files}.db`)

/** Opens a process over the slow store at a path. */
const open = async (path: string, seed: number) =>
  testGateway({ ...(await openSlowStore({ path, seed })), ids: createRandomIds() })

let server: Gateway
let terminal: Gateway
let reads: number

/** Two processes over one slow store, and how to make each of them slow. */
beforeEach(async () => {
  const path = newPath()
  server = await open(path, 5)
  terminal = await open(path, 6)
  reads = 0
  const { version } = server.store
  server.store.version = () => {
    reads += 1
    return version()
  }
})

afterEach(async () => {
  await Promise.all([server.close(), terminal.close()])
})

const knows = async (key: string) =>
  identify(server, `Bearer ${key}`).then(
    () => true,
    () => false,
  )

test('a key created a moment ago is accepted, even with simultaneous requests', async () => {
  let isOver = false
  const poll = async () => {
    while (!isOver) await server.catchUp()
  }
  const polling = [poll(), poll()]
  for (let round = 0; round < 100; round++) {
    const { key } = await createKey(terminal, getOperator(terminal), { name: `k${round}` })
    expect(await Promise.all([knows(key), knows('gw-v1-nobody'), knows(key)])).toEqual([
      true,
      false,
      true,
    ])
  }
  isOver = true
  await Promise.all(polling)
})

test('what another process writes during startup is picked up', async () => {
  const path = newPath()
  const other = await open(path, 1)
  const { store, secret } = await openSlowStore({ path, seed: 2 })
  const made: string[] = []
  for (const noun of [store.keys, store.workspaces, store.assignments]) {
    const all = noun.all as () => Promise<never>
    noun.all = async () => {
      const read = await all()
      made.push((await createKey(other, getOperator(other), { name: 'late' })).data.hash)
      return read
    }
  }
  const late = await testGateway({ store, secret, ids: createRandomIds() })
  expect(made).toHaveLength(3)
  await late.catchUp()
  for (const hash of made.slice(0, 3)) expect(late.memory.keys.has(hash)).toBe(true)
  await Promise.all([late.close(), other.close()])
})

test('simultaneous callers share the work', async () => {
  const asked = Array.from({ length: 100 }, () => server.catchUp())
  await Promise.all(asked)
  expect(reads).toBe(1)
})

test('memory ends up equal to the store, whatever was changed and read concurrently', async () => {
  const made: string[] = []
  for (let round = 0; round < 30; round++) {
    const polls = Array.from({ length: 3 }, () => server.catchUp())
    const own = createKey(server, getOperator(server), { name: `own ${round}` })
    await addCredit(terminal, getOperator(terminal), { amount: 1 })
    const { data } = await createKey(terminal, getOperator(terminal), { name: `theirs ${round}` })
    made.push(data.hash)
    polls.push(server.catchUp())
    const old = made.length > 3 ? made.shift() : undefined
    if (old) await deleteKey(terminal, getOperator(terminal), old)
    await Promise.all([own, ...polls])
  }
  await server.catchUp()
  expect(server.memory.credits).toBe(30_000_000_000n)
  const stored = [...(await terminal.store.keys.all())].map(({ hash }) => hash)
  expect([...server.memory.keys.keys()].toSorted()).toEqual(stored.toSorted())
  expect(stored.length).toBeGreaterThan(30)
})

test('a late read does not hide the result of the next read', async () => {
  const [late, slow] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const { credits, assignments } = server.store
  server.store.credits = { ...credits, computeTotal: holdFirst(credits.computeTotal, late.promise) }
  server.store.assignments = { ...assignments, all: holdFirst(assignments.all, slow.promise) }
  await addCredit(terminal, getOperator(terminal), { amount: 1 })
  const first = server.catchUp()
  await Bun.sleep(20)
  await addCredit(terminal, getOperator(terminal), { amount: 1 })
  const second = server.catchUp()
  await Bun.sleep(20)
  late.resolve()
  await Bun.sleep(20)
  slow.resolve()
  await Promise.all([first, second])
  await server.catchUp()
  expect(server.memory.credits).toBe(2_000_000_000n)
})

/** Works the same, but the first result comes late. */
function holdFirst<Found>(read: () => Promise<Found>, until: Promise<void>): () => Promise<Found> {
  let isFirst = true
  return async () => {
    const isHeld = isFirst
    isFirst = false
    const found = await read()
    if (isHeld) await until
    return found
  }
}
