import { afterAll, describe, expect, spyOn, test } from 'bun:test'
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineGateway } from '../../src/app/doctor.ts'
import { type Gateway, type GatewayParts, openGateway } from '../../src/app/gateway.ts'
import { createCheckpoint, recoverCalls } from '../../src/engine/recover.ts'
import type { HeldCall } from '../../src/limits/ledger.ts'
import { createDestination } from '../../src/observability/destinations.ts'
import type { RecorderEntry } from '../../src/observability/generations/store.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { updateWorkspace } from '../../src/resources/workspaces.ts'
import { createCountedIds, TestClock } from '../support/gateway.ts'
import { buildRecordEntry, buildStepEntry, PAYER } from '../support/generation.ts'
import { openSlowStore } from '../support/slow-store.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-recover-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const held = (step: number, more: Partial<HeldCall> = {}): HeldCall => ({
  ...PAYER,
  id: 'dead',
  request_id: 'r',
  created_at: '2026-03-04T05:06:07.000Z',
  api_type: 'completions',
  model: 'acme/small',
  streamed: true,
  step,
  byok: false,
  nanos: 1_000n,
  spent: 100n,
  ...more,
})

/** Opens the gateway of a data directory, as each process that starts there does. */
type Start = () => Promise<Gateway>

const STORES: Record<string, () => (data: string) => Promise<Gateway>> = {
  SQLite: () => data => opened(data),
  'a slow store': () => {
    let seed = 0
    return async data =>
      opened(data, await openSlowStore({ path: join(data, 'slow.db'), seed: ++seed }))
  },
}

const opened = (data: string, parts: Partial<GatewayParts> = {}) =>
  openGateway({
    data,
    clock: new TestClock('2026-03-04T12:00:00.000Z'),
    ids: createCountedIds(),
    ...parts,
  })

/** A process that settled these steps, wrote a call to the journal and died. */
async function die(start: Start, settled: RecorderEntry[], ...words: HeldCall[]): Promise<void> {
  const gateway = await start()
  for (const entry of settled) await gateway.recorder.record(entry)
  for (const word of words) await gateway.journal.holds.append(word).written
  await gateway.close()
}

/** What the doctor finds wrong. */
const faultsOf = async (gateway: Gateway) =>
  (await examineGateway(gateway)).data.filter(({ ok }) => !ok)

interface Case {
  settled: RecorderEntry[]
  word: HeldCall
  /** The rows of the call in the end: step, whether it used its own key, and nano-dollars. */
  charges: [number, boolean, bigint][]
}

const own = { byok: true }
const CASES: Record<string, Case> = {
  'in its first step': { settled: [], word: held(1), charges: [[1, false, 100n]] },
  'in its first step, which costs nothing': {
    settled: [],
    word: held(1, { spent: 0n }),
    charges: [],
  },
  'in its first step, which is charged': {
    settled: [buildStepEntry('dead', 1, { nanos: 7n })],
    word: held(1),
    charges: [[1, false, 7n]],
  },
  'in its second step': {
    settled: [buildStepEntry('dead', 1, { nanos: 7n })],
    word: held(2),
    charges: [
      [1, false, 7n],
      [2, false, 100n],
    ],
  },
  'in its second step, which is charged': {
    settled: [buildStepEntry('dead', 1, { nanos: 7n }), buildStepEntry('dead', 2, { nanos: 5n })],
    word: held(2),
    charges: [
      [1, false, 7n],
      [2, false, 5n],
    ],
  },
  'in its third step': {
    settled: [buildStepEntry('dead', 1, { nanos: 7n }), buildStepEntry('dead', 2, { nanos: 5n })],
    word: held(3),
    charges: [
      [1, false, 7n],
      [2, false, 5n],
      [3, false, 100n],
    ],
  },
  'in a step that was settled and cost nothing': {
    settled: [buildStepEntry('dead', 1, { nanos: 7n }), buildStepEntry('dead', 2, { nanos: 0n })],
    word: held(2),
    charges: [
      [1, false, 7n],
      [2, false, 0n],
    ],
  },
  'in a step by the caller’s own key, after one that was not': {
    settled: [buildStepEntry('dead', 1, { nanos: 7n })],
    word: held(2, own),
    charges: [
      [1, false, 7n],
      [2, true, 100n],
    ],
  },
  'with its own key, in its first step': {
    settled: [],
    word: held(1, own),
    charges: [[1, true, 100n]],
  },
}

for (const [name, openStore] of Object.entries(STORES))
  describe(`a call that a dead process left, in ${name}`, () => {
    test.each(Object.entries(CASES))(
      '%s, is settled once, however often it is started',
      async (_, { settled, word, charges }) => {
        const data = mkdtempSync(join(root, 'data-'))
        const start = openStore().bind(null, data)
        await die(start, settled, word)
        const sum = (rows: typeof charges) => rows.reduce((total, [, , nanos]) => total + nanos, 0n)
        const spent = (byok: boolean) => sum(charges.filter(row => row[1] === byok))
        for (let run = 1; run <= 3; run++) {
          const gateway = await start()
          // The first to start dies before it can forget what it has settled.
          if (run === 1) gateway.journal.holds.clear = async () => undefined
          expect((await recoverCalls(gateway)).calls).toBe(run === 1 ? 1 : 0)
          const rows = await gateway.store.ledger.listCharges('dead')
          expect(rows.map(({ step, byok, nanos }) => [step, byok, nanos] as const)).toEqual(charges)
          expect(await gateway.store.generations.byId('dead')).toMatchObject({
            upstream_inference_cost: sum(charges),
            total_cost: spent(false),
            is_byok: word.byok,
            usageSource: 'estimated',
            finish_reason: 'error',
            settled_at: '2026-03-04T12:00:00.000Z',
          })
          for (const byok of [false, true])
            expect(gateway.ledger.getSpent(`key ${PAYER.key_hash}`, null, byok)).toBe(spent(byok))
          expect(await faultsOf(gateway)).toEqual([])
          await gateway.close()
        }
      },
    )

    test('is no finding of the doctor before it is settled, nor is a running call', async () => {
      const data = mkdtempSync(join(root, 'data-'))
      const start = openStore().bind(null, data)
      await die(start, [buildStepEntry('dead', 1), buildRecordEntry('done')], held(2))
      const gateway = await start()
      expect(await faultsOf(gateway)).toEqual([])
      await gateway.recorder.record(buildStepEntry('nobody said that it runs', 1))
      expect((await faultsOf(gateway)).map(({ check }) => check)).toEqual(['calls'])
      await gateway.close()
    })

    test('from a version without steps is settled as its first step', async () => {
      const data = mkdtempSync(join(root, 'data-'))
      const start = openStore().bind(null, data)
      const { step: _, nanos, spent, ...line } = held(1)
      appendFileSync(
        join(data, 'holds.log'),
        `${JSON.stringify({ ...line, nanos: String(nanos), spent: String(spent) })}\n`,
      )
      const gateway = await start()
      expect(gateway.journal.holds.listCalls()).toEqual([held(1)])
      expect((await recoverCalls(gateway)).calls).toBe(1)
      expect(await gateway.store.ledger.listCharges('dead')).toEqual([
        { step: 1, byok: false, nanos: 100n },
      ])
      expect(await faultsOf(gateway)).toEqual([])
      await gateway.close()
    })

    test('O-14 many at once: each is settled by what is known of it', async () => {
      const data = mkdtempSync(join(root, 'data-'))
      const start = openStore().bind(null, data)
      const ids = Array.from({ length: 30 }, (_, i) => `g${i}`)
      const settled = ids.flatMap((id, i) =>
        Array.from({ length: i % 3 }, (_, step) => buildStepEntry(id, step + 1, { nanos: 1n })),
      )
      await die(start, settled, ...ids.map((id, i) => held((i % 3) + 1, { id })))
      const gateway = await start()
      expect((await recoverCalls(gateway)).calls).toBe(30)
      for (const [i, id] of ids.entries())
        expect((await gateway.store.generations.byId(id))?.total_cost).toBe(BigInt(100 + (i % 3)))
      expect(await faultsOf(gateway)).toEqual([])
      await gateway.close()
    })
  })

test('what a dead process left of a call is told to destinations, with its key, cost and failure', async () => {
  const data = mkdtempSync(join(root, 'data-'))
  const first = await opened(data)
  const operator = getOperator(first)
  const { workspace_id } = operator
  await updateWorkspace(first, operator, workspace_id, {
    is_observability_broadcast_enabled: true,
  })
  const config = { url: 'https://hooks.example.com/' }
  await createDestination(first, operator, { type: 'webhook', name: 'hook', config })
  const key_hash = (await createKey(first, operator, { name: 'theirs' })).data.hash
  await first.close()
  const words = [held(1, { key_hash, workspace_id })]
  words.push(held(1, { id: 'of no key', key_hash: 'gone', workspace_id, api_type: 'image' }))
  await die(() => opened(data), [], ...words)
  const gateway = await opened(data)
  const record = spyOn(gateway.recorder, 'record')
  expect((await recoverCalls(gateway)).calls).toBe(2)
  const told = record.mock.calls.flatMap(([{ outbox = [] }]) => outbox)
  expect(told.map(({ payload }) => JSON.parse(payload).facts)).toMatchObject([
    {
      ...{ kind: 'text', model: 'acme/small', author: 'acme', apiKeyName: 'theirs' },
      ...{ startedAt: Date.parse('2026-03-04T05:06:07.000Z'), totalCost: 1e-7 },
      error: { type: 'server', message: 'The gateway ended before the call did' },
    },
    { kind: 'image', apiKeyName: null },
  ])
  await gateway.close()
})

test('a guard that cannot be written is said, once, and again when it can', async () => {
  const gateway = await opened(mkdtempSync(join(root, 'guard-')))
  const said: string[] = []
  gateway.events.on('checkpoint.failing', ({ error }) => said.push(String(error)))
  gateway.events.on('checkpoint.recovered', () => said.push('recovered'))
  const checkpoint = createCheckpoint(gateway)
  const { head } = gateway.journal
  gateway.journal.head = {
    ...head,
    read() {
      throw new Error('permission denied')
    },
  }
  await checkpoint()
  await checkpoint()
  gateway.journal.head = head
  await checkpoint()
  await checkpoint()
  expect(said).toEqual(['Error: permission denied', 'recovered'])
  await gateway.close()
})
