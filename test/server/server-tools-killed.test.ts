import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseConfig } from '../../src/core/config.ts'
import { examineGateway } from '../../src/core/doctor.ts'
import { openGateway } from '../../src/core/gateway.ts'
import { getOperator } from '../../src/core/identity/actor.ts'
import { createKey } from '../../src/core/identity/keys.ts'
import { recoverCalls } from '../../src/core/inference/recover.ts'
import { readBooks } from '../support/books.ts'
import { buildLocalConfig } from '../support/server.ts'
import { PRICE } from '../support/server-tools/price.ts'
import {
  delta,
  done,
  finish,
  json,
  type Script,
  sseHead,
  startUpstream,
  type Upstream,
  usage,
  usageChunk,
} from '../support/upstream.ts'

/** The price of 100 prompt tokens and 10 output tokens, in nano-dollars. */
const TURN = 100n * 150n + 10n * 600n

let upstream: Upstream
let data: string
beforeEach(async () => {
  upstream = await startUpstream()
  data = mkdtempSync(join(tmpdir(), 'gateway-tools-'))
})
afterEach(async () => {
  await upstream.close()
  rmSync(data, { recursive: true, force: true })
})

const config = () => parseConfig(JSON.stringify(buildLocalConfig(upstream.url)), {})

const callingAll = (...calls: { name: string; arguments: string }[]): Script => [
  sseHead(),
  delta({
    tool_calls: calls.map((called, index) => ({
      ...{ index, id: `call_${index}`, type: 'function', function: called },
    })),
  }),
  finish('tool_calls'),
  usageChunk(usage(100, 10)),
  done(),
  '0\r\n\r\n',
]
const calling = callingAll({ name: 'priced', arguments: '{}' })
const asking = { name: 'advisor', arguments: '{"prompt":"What now?"}' }
/** What a model says that is asked within the call: an answer as a whole. */
const ADVICE: Script = [
  json({
    id: 'upstream-1',
    object: 'chat.completion',
    created: 1,
    model: 'small',
    choices: [
      { index: 0, message: { role: 'assistant', content: 'Wait.' }, finish_reason: 'stop' },
    ],
    usage: usage(100, 10),
  }),
]
const WAITING: Script = [{ wait: 'never' }]

async function makeKey() {
  const gateway = await openGateway({ data, config: config() })
  const made = await createKey(gateway, getOperator(gateway), { name: 'k', limit: 1 })
  await gateway.close()
  return made.key
}

/** Starts a gateway, calls it and kills it once the loop is there. */
async function killAt(at: string, secret: string, hits?: number): Promise<void> {
  const program = join(import.meta.dir, '../support/server-tools/serve.ts')
  const child = Bun.spawn(
    [process.execPath, program, data, JSON.stringify(buildLocalConfig(upstream.url)), at],
    { stdout: 'pipe' },
  )
  const output = child.stdout.getReader()
  const line = async () => new TextDecoder().decode((await output.read()).value)
  const url = (await line()).trim()
  const answer = fetch(`${url}/api/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${secret}` },
    body: JSON.stringify({
      model: 'acme/small',
      stream: true,
      max_tokens: 100,
      messages: [{ role: 'user', content: 'Hi' }],
      tools: [{ type: 'gateway:priced' }, { type: 'gateway:advisor' }],
    }),
  })
    .then(response => response.text())
    .catch(() => '')
  if (hits !== undefined) await upstream.hit(hits)
  else if (at === 'in the first turn') await upstream.hit(1)
  else if (at === 'in the second turn') await upstream.hit(2)
  else expect(await line()).toContain('stopped')
  child.kill('SIGKILL')
  await Promise.all([child.exited, answer])
}

/** Restarts twice and expects these charges, each once, and books that agree. */
async function expectCharges(
  secret: string,
  calls: number,
  charges: [number, unknown][],
): Promise<void> {
  for (const found of [calls, 0]) {
    const gateway = await openGateway({ data, config: config() })
    expect(await recoverCalls(gateway)).toBe(found)
    expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
    const [generation] = await gateway.store.generations.list({}, 1)
    const charged = generation ? await gateway.store.ledger.listCharges(generation.id) : []
    expect(charged.map(({ step, nanos }) => [step, nanos])).toEqual(
      charges.map(([step, nanos]) => [step, nanos === 'its prompt' ? expect.anything() : nanos]),
    )
    for (const { nanos } of charged) expect(nanos).toBeGreaterThan(0n)
    const sum = charged.reduce((total, { nanos }) => total + nanos, 0n)
    expect(generation?.total_cost ?? 0n).toBe(sum)
    const books = readBooks(data, secret)
    expect([books.ledger, books.counted, books.calls, books.held]).toEqual([
      Number(sum),
      Number(sum),
      calls,
      0,
    ])
    await gateway.close()
  }
}

describe.each([
  ['before a turn', 0, []],
  ['in the first turn', 1, [[1, 'its prompt']]],
  ['before a tool', 1, [[1, TURN]]],
  [
    'in a tool',
    1,
    [
      [1, TURN],
      [2, PRICE],
    ],
  ],
  [
    'after a tool',
    1,
    [
      [1, TURN],
      [2, PRICE],
    ],
  ],
  [
    'in the second turn',
    1,
    [
      [1, TURN],
      [2, PRICE],
      [3, 'its prompt'],
    ],
  ],
] as [string, number, [number, unknown][]][])(
  'a gateway that is killed %s',
  (at, calls, charges) => {
    test('has charged each step once, however often it restarts', async () => {
      const secret = await makeKey()
      if (at === 'in the first turn') upstream.plan(WAITING)
      else upstream.plan(calling, WAITING)
      await killAt(at, secret)
      await expectCharges(secret, calls, charges)
    })
  },
)

describe.each([
  [
    'in a turn within a call',
    [callingAll(asking), WAITING],
    [
      [1, TURN],
      [2, 'its prompt'],
    ],
  ],
  [
    'in two of them at once',
    [callingAll(asking, asking), WAITING, WAITING],
    [
      [1, TURN],
      [2, 'its prompt'],
      [3, 'its prompt'],
    ],
  ],
  [
    'in one of them, while another has ended',
    [callingAll(asking, asking), ADVICE, WAITING],
    [
      [1, TURN],
      [2, expect.anything()],
      [3, expect.anything()],
    ],
  ],
  [
    'in a turn after one within the call',
    [callingAll(asking), ADVICE, WAITING],
    [
      [1, TURN],
      [2, TURN],
      [3, 'its prompt'],
    ],
  ],
] as [string, [Script, ...Script[]], [number, unknown][]][])(
  'a gateway that is killed %s',
  (at, scripts, charges) => {
    test('has charged each step once, however often it restarts', async () => {
      const secret = await makeKey()
      upstream.plan(...scripts)
      await killAt(at, secret, scripts.length)
      await expectCharges(secret, 1, charges)
    })
  },
)

describe.each([
  ['before a tool', [callingAll(asking)], [[1, TURN]]],
  [
    'after a tool',
    [callingAll(asking), ADVICE],
    [
      [1, TURN],
      [2, TURN],
    ],
  ],
] as [string, [Script, ...Script[]], [number, unknown][]][])(
  'a gateway that is killed %s that asks a model',
  (at, scripts, charges) => {
    test('has charged each step once, however often it restarts', async () => {
      const secret = await makeKey()
      upstream.plan(...scripts)
      await killAt(at, secret)
      await expectCharges(secret, 1, charges)
    })
  },
)
