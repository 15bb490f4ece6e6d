import { expect } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineGateway } from '../../../src/app/doctor.ts'
import { openGateway } from '../../../src/app/gateway.ts'
import type { Json } from '../../../src/base/json.ts'
import { parseConfig } from '../../../src/config.ts'
import { recoverCalls } from '../../../src/engine/recover.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createKey } from '../../../src/resources/keys.ts'
import { readBooks } from '../books.ts'
import { delta, done, finish, json, type Script, sseHead, usage, usageChunk } from '../upstream.ts'

/** The price of 100 prompt tokens and 10 output tokens, in nano-dollars. */
export const TURN = 100n * 150n + 10n * 600n

/** A turn that calls these functions. */
export const callingAll = (...calls: { name: string; arguments: string }[]): Script => [
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

/** What a model says that is asked within the call: an answer as a whole. */
export const ADVICE: Script = [
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
/** What never ends. */
export const WAITING: Script = [{ wait: 'never' }]

/** Charges as they are expected: the step and its nano-dollars, which may not be known. */
export type Charges = [step: number, nanos: unknown][]

/** Where a gateway is killed, and what it is asked before. */
interface Killing {
  /** Where the loop stops; see `serve.ts`. */
  at: string
  /** The body, beside its model. */
  body: Json
  path?: string
  /** Resolves when the loop is there; absent if the program says so itself. */
  reached?: () => Promise<unknown>
}

/** A data directory whose gateway is killed and started again. */
export class KilledGateway {
  readonly #data: string
  readonly #config: Json
  readonly #secret: string

  private constructor(data: string, config: Json, secret: string) {
    this.#data = data
    this.#config = config
    this.#secret = secret
  }

  /** Makes a key in a new data directory. The caller removes it. */
  static async create(config: Json): Promise<KilledGateway> {
    const data = mkdtempSync(join(tmpdir(), 'gateway-tools-'))
    const gateway = await openGateway({ data, config: parseConfig(JSON.stringify(config), {}) })
    const made = await createKey(gateway, getOperator(gateway), { name: 'k', limit: 1 })
    await gateway.close()
    return new KilledGateway(data, config, made.key)
  }

  remove(): void {
    rmSync(this.#data, { recursive: true, force: true })
  }

  /** Starts a gateway, calls it and kills it once the loop is there. */
  async killAt({ at, body, path = '/chat/completions', reached }: Killing): Promise<void> {
    const program = join(import.meta.dir, 'serve.ts')
    const child = Bun.spawn(
      [process.execPath, program, this.#data, JSON.stringify(this.#config), at],
      { stdout: 'pipe' },
    )
    const output = child.stdout.getReader()
    const line = async () => new TextDecoder().decode((await output.read()).value)
    const url = (await line()).trim()
    const answer = fetch(`${url}/api/v1${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${this.#secret}` },
      body: JSON.stringify({ model: 'acme/small', stream: true, ...body }),
    })
      .then(response => response.text())
      .catch(() => '')
    // An answer before that is an error.
    const early = answer.then(text => Promise.reject(new Error(`It has answered: ${text}`)))
    if (reached) await Promise.race([reached(), early])
    else expect(await line()).toContain('stopped')
    early.catch(() => undefined)
    child.kill('SIGKILL')
    await Promise.all([child.exited, answer])
  }

  /** Restarts twice and expects these charges, each once, and books that agree. */
  async expectCharges(calls: number, expected: Charges | bigint[]): Promise<void> {
    for (const found of [calls, 0]) {
      const gateway = await openGateway({
        data: this.#data,
        config: parseConfig(JSON.stringify(this.#config), {}),
      })
      expect((await recoverCalls(gateway)).calls).toBe(found)
      expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
      const [generation] = await gateway.store.generations.list({}, 1)
      const charged = generation ? await gateway.store.ledger.listCharges(generation.id) : []
      expectSteps(
        charged.map(({ step, nanos }) => [step, nanos]),
        expected,
      )
      const sum = charged.reduce((total, { nanos }) => total + nanos, 0n)
      expect(generation?.total_cost ?? 0n).toBe(sum)
      const books = readBooks(this.#data, this.#secret)
      expect([books.ledger, books.counted, books.calls, books.held]).toEqual([
        ...[Number(sum), Number(sum), calls, 0],
      ])
      await gateway.close()
    }
  }
}

/** Expects these charges; amounts alone are those of steps that may have any order. */
function expectSteps(charged: [number, bigint][], expected: Charges | bigint[]): void {
  const amounts = charged.map(([, nanos]) => nanos)
  if (expected.every(one => typeof one === 'bigint')) {
    expect(charged.map(([step]) => step)).toEqual(charged.map((_, i) => i + 1))
    const sort = (list: bigint[]) => list.toSorted((a, b) => Number(a - b))
    expect(sort(amounts)).toEqual(sort(expected))
    return
  }
  const known = expected.map(([step, nanos], i) => [step, readCharge(nanos, amounts[i])])
  expect(charged).toEqual(known as [number, bigint][])
}

// What a turn has cost that was not answered is not known, but its prompt is not free.
function readCharge(expected: unknown, nanos = 0n): unknown {
  if (expected !== 'its prompt') return expected
  expect(nanos).toBeGreaterThan(0n)
  return nanos
}
