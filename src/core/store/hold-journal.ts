import { closeSync, fstatSync, ftruncateSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { unavailable } from '../errors.ts'
import { yieldToEventLoop } from '../kernel/clock.ts'
import { parseObject } from '../kernel/json.ts'
import { LiveSet } from '../kernel/live-set.ts'
import type { HeldCall, HoldJournal } from '../ledger/ledger.ts'
import { openDataFile, readDataFile, writeDataFile } from './data-files.ts'

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
  const openCalls = new LiveSet<HeldCall>()
  let file: number | undefined
  let size = 0
  let pending: PendingWrite | undefined

  function append(lines: string): void {
    file ??= openFile()
    try {
      size += writeAll(file, lines)
    } catch (error) {
      // These calls do not go out, so no part of their lines may stay.
      ftruncateSync(file, size)
      throw error
    }
    if (size > LARGEST) rewrite()
  }

  function openFile(): number {
    const existing = openDataFile(path, 'append')
    size = fstatSync(existing).size
    return existing
  }

  function rewrite(): void {
    const newPath = `${path}.new`
    const newFile = openDataFile(newPath, 'replace')
    size = writeAll(newFile, [...openCalls].map(renderLine).join(''))
    renameSync(newPath, path)
    if (file !== undefined) closeSync(file)
    file = newFile
  }

  async function writePending(): Promise<void> {
    await yieldToEventLoop()
    const lines = pending?.lines ?? ''
    pending = undefined
    try {
      append(lines)
    } catch (cause) {
      throw unavailable('The call could not be recorded', undefined, cause)
    }
  }

  return {
    append(held) {
      pending ??= { lines: '', written: writePending() }
      pending.lines += renderLine(held)
      return { written: pending.written, forget: openCalls.add(held) }
    },
    updateSpent(calls) {
      const changed = calls.filter(({ held, spent }) => held.spent !== spent)
      for (const { held, spent } of changed) held.spent = spent
      if (changed.length > 0) append(changed.map(({ held }) => renderLine(held)).join(''))
    },
    listCalls: () => readCalls(path),
    clear: rewrite,
  }
}

/** The lines of all calls that began in this turn of the event loop, written at its end. */
interface PendingWrite {
  lines: string
  written: Promise<void>
}

/** Writes the whole text or throws. Returns its number of bytes. */
function writeAll(file: number, text: string): number {
  const written = writeSync(file, text)
  if (written < Buffer.byteLength(text)) throw new Error('Only a part of the lines was written')
  return written
}

/** Writes the journal of a copied data directory, which no server uses. */
export const writeHolds = (data: string, calls: HeldCall[]): void =>
  writeDataFile(join(data, 'holds.log'), calls.map(renderLine).join(''))

// Field by field: copying an object with a rest pattern costs more than writing it.
const renderLine = (call: HeldCall) =>
  `${JSON.stringify({
    key_hash: call.key_hash,
    user_id: call.user_id,
    workspace_id: call.workspace_id,
    id: call.id,
    request_id: call.request_id,
    created_at: call.created_at,
    api_type: call.api_type,
    model: call.model,
    streamed: call.streamed,
    step: call.step,
    inner: call.inner,
    byok: call.byok,
    nanos: String(call.nanos),
    spent: String(call.spent),
  })}\n`

/**
 * Reads every call in the journal, each with the last line of its last step and of every inner one.
 * Only the last line can be incomplete, and its call had not gone out.
 */
function readCalls(path: string): HeldCall[] {
  const found = new Map<string, HeldCall>()
  for (const line of (readDataFile(path)?.toString() ?? '').split('\n')) {
    const { nanos, spent, ...call } = parseObject(line) ?? {}
    if (typeof call.id !== 'string' || typeof nanos !== 'string' || typeof spent !== 'string')
      continue
    const step = parseStep(call.step)
    const place = call.inner === true ? `${call.id} ${step}` : call.id
    if (step < (found.get(place)?.step ?? 1)) continue
    const entry = {
      ...(call as unknown as HeldCall),
      step,
      nanos: BigInt(nanos),
      spent: BigInt(spent),
    }
    found.set(place, entry)
  }
  return [...found.values()]
}

// Lines from versions before steps have none.
const parseStep = (step: unknown): number =>
  typeof step === 'number' && Number.isSafeInteger(step) && step > 0 ? step : 1
