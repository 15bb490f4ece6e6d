import type { Connection } from './connection.ts'

/**
 * One action of a script: bytes, a pause, a barrier (`open` lets it pass), bytes one at a time with
 * a pause before each, filler bytes as fast as the peer reads them, or the end of the connection.
 */
export type Step =
  | string
  | Uint8Array
  | { ms: number }
  | { wait: string }
  | { drip: string | Uint8Array; ms: number }
  | { flood: number }
  | { end: 'fin' | 'rst' }

/** Steps in order. Scripts nest, so an answer is put together from smaller ones. */
export type Script = Step | readonly Script[]

/** Lists the steps of a script without its nesting. */
export function listSteps(script: Script): Step[] {
  return isNested(script) ? script.flatMap(listSteps) : [script]
}

const isNested = (script: Script): script is readonly Script[] => Array.isArray(script)

/** Renders the bytes that a script would write, without its pauses and floods. */
export function renderBytes(script: Script): Buffer {
  return Buffer.concat(listSteps(script).map(step => Buffer.from(getText(step))))
}

const getText = (step: Step) => (isBytes(step) ? step : 'drip' in step ? step.drip : '')

const isBytes = (step: Step): step is string | Uint8Array =>
  typeof step === 'string' || step instanceof Uint8Array

/** Tells whether a script's head keeps the connection open for another request. */
export function keepsAlive(script: Script): boolean {
  const [head = ''] = renderBytes(script).toString('latin1').split('\r\n\r\n', 1)
  return /^connection: *keep-alive *$/im.test(head)
}

/** Plays steps on a connection, in order, until they end or the connection does. */
export async function play(steps: Step[], line: Connection, gates: Gates): Promise<void> {
  for (const step of steps) {
    if (line.isOver) return
    await perform(step, line, gates)
  }
}

function perform(step: Step, line: Connection, gates: Gates): Promise<void> {
  if (isBytes(step)) return line.write(step)
  if ('drip' in step) return drip(Buffer.from(step.drip), step.ms, line)
  if ('ms' in step) return line.pause(step.ms)
  if ('wait' in step) return line.hold(gates.reach(step.wait))
  if ('flood' in step) return flood(step.flood, line)
  return line.hangUp(step.end)
}

async function drip(bytes: Buffer, ms: number, line: Connection): Promise<void> {
  for (let at = 0; at < bytes.length && !line.isOver; at++) {
    await line.pause(ms)
    await line.write(bytes.subarray(at, at + 1))
  }
}

const FILLER = Buffer.alloc(64 * 1024, 'x')

async function flood(count: number, line: Connection): Promise<void> {
  for (let left = count; left > 0 && !line.isOver; left -= FILLER.length)
    await line.write(FILLER.subarray(0, left))
}

/** Named barriers: scripts wait at them and a test opens them. An open one stays open. */
export class Gates {
  #opened = new Map<string, PromiseWithResolvers<void>>()
  #reached = new Map<string, PromiseWithResolvers<void>>()

  open(gate: string) {
    getDeferred(this.#opened, gate).resolve()
  }

  /** Records that a script has reached the gate, and resolves when the gate is open. */
  reach(gate: string): Promise<void> {
    getDeferred(this.#reached, gate).resolve()
    return getDeferred(this.#opened, gate).promise
  }

  /** Resolves when a script has reached the gate. */
  reached(gate: string): Promise<void> {
    return getDeferred(this.#reached, gate).promise
  }
}

function getDeferred(
  all: Map<string, PromiseWithResolvers<void>>,
  name: string,
): PromiseWithResolvers<void> {
  const found = all.get(name) ?? Promise.withResolvers<void>()
  all.set(name, found)
  return found
}
