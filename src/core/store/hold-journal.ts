import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { unavailable } from '../errors.ts'
import { nextTurn } from '../kernel/clock.ts'
import { parseObject } from '../kernel/json.ts'
import { Roster } from '../kernel/roster.ts'
import type { HeldCall, HoldJournal } from '../ledger/ledger.ts'

/** Beyond this many bytes it is written anew, with the calls that still run and no others. */
const LARGEST = 4 * 1024 * 1024

/**
 * Word of the calls that run, in a file beside the database: a line when a call goes out, another when it has come to more. Writing takes
 * no lock and a few microseconds, once for all calls that begin in one turn of the event loop, and whoever has written may be killed. It
 * need not say that a call has ended: that call is on record.
 */
export function openHoldJournal(data: string): HoldJournal {
  const path = join(data, 'holds.log')
  const open = new Roster<HeldCall>()
  let file: number | undefined
  let size = 0
  let turn: Turn | undefined

  function append(lines: string): void {
    file ??= reopened()
    try {
      size += writeAll(file, lines)
    } catch (error) {
      // Nobody is to find word of calls that do not go out.
      ftruncateSync(file, size)
      throw error
    }
    if (size > LARGEST) rewrite()
  }

  function reopened(): number {
    const old = openSync(path, 'a', 0o600)
    size = fstatSync(old).size
    return old
  }

  function rewrite(): void {
    const anew = `${path}.new`
    const fresh = openSync(anew, 'w', 0o600)
    size = writeAll(fresh, [...open].map(lineOf).join(''))
    renameSync(anew, path)
    if (file !== undefined) closeSync(file)
    file = fresh
  }

  async function writeTurn(): Promise<void> {
    await nextTurn()
    const lines = turn?.lines ?? ''
    turn = undefined
    try {
      append(lines)
    } catch (cause) {
      throw unavailable('The call could not be recorded', undefined, cause)
    }
  }

  return {
    open(held) {
      turn ??= { lines: '', written: writeTurn() }
      turn.lines += lineOf(held)
      return { written: turn.written, forget: open.add(held) }
    },
    progress(calls) {
      const changed = calls.filter(({ held, spent }) => held.spent !== spent)
      for (const { held, spent } of changed) held.spent = spent
      if (changed.length > 0) append(changed.map(({ held }) => lineOf(held)).join(''))
    },
    left: () => leftIn(path),
    clear: rewrite,
  }
}

/** What is written at the end of a turn of the event loop, for all calls that have begun in it. */
interface Turn {
  lines: string
  written: Promise<void>
}

/** Writes all of it, or throws; gives back how many bytes it was. */
function writeAll(file: number, text: string): number {
  const written = writeSync(file, text)
  if (written < Buffer.byteLength(text)) throw new Error('Only a part of it could be written')
  return written
}

// Field by field: copying the rest of an object costs more than writing it down.
const lineOf = (held: HeldCall) =>
  `${JSON.stringify({
    key_hash: held.key_hash,
    user_id: held.user_id,
    workspace_id: held.workspace_id,
    id: held.id,
    request_id: held.request_id,
    created_at: held.created_at,
    api_type: held.api_type,
    model: held.model,
    streamed: held.streamed,
    step: held.step,
    byok: held.byok,
    nanos: String(held.nanos),
    spent: String(held.spent),
  })}\n`

/**
 * Every call of which there is word, as it was said last of its last step. A line that was cut is
 * the last one, and its call had not gone out.
 */
function leftIn(path: string): HeldCall[] {
  const found = new Map<string, HeldCall>()
  for (const line of textOf(path).split('\n')) {
    const { nanos, spent, ...call } = parseObject(line) ?? {}
    if (typeof call.id !== 'string' || typeof nanos !== 'string' || typeof spent !== 'string')
      continue
    const step = stepOf(call.step)
    if (step < (found.get(call.id)?.step ?? 1)) continue
    const held = {
      ...(call as unknown as HeldCall),
      step,
      nanos: BigInt(nanos),
      spent: BigInt(spent),
    }
    found.set(call.id, held)
  }
  return [...found.values()]
}

// Lines of the time before there were steps have none.
const stepOf = (step: unknown): number =>
  typeof step === 'number' && Number.isSafeInteger(step) && step > 0 ? step : 1

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return ''
    throw error
  }
}
