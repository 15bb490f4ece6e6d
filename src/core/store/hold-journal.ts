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

/** Beyond this many bytes the file is rewritten with only the calls that still run. */
const LARGEST = 4 * 1024 * 1024

/**
 * Opens the journal of holds, a file beside the database. A call gets a line before it goes out,
 * and another when it has spent more. Writing takes no lock and a few microseconds, once for all
 * calls that begin in one turn of the event loop. What is written survives a kill of the process.
 * The end of a call is not written: by then the call is on record.
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
      // These calls do not go out, so no part of their lines may stay.
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

/** The lines of all calls that began in this turn of the event loop, written at its end. */
interface Turn {
  lines: string
  written: Promise<void>
}

/** Writes the whole text or throws. Returns its number of bytes. */
function writeAll(file: number, text: string): number {
  const written = writeSync(file, text)
  if (written < Buffer.byteLength(text)) throw new Error('Only a part of the lines was written')
  return written
}

// Field by field: copying an object with a rest pattern costs more than writing it.
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
 * Reads every call in the journal, each with the last line of its last step. Only the last line
 * can be incomplete, and its call had not gone out.
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

// Lines from versions before steps have none.
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
